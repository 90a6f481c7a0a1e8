//! Updates on their way: buffers under a byte budget, partition and sort into hash order, merge.
