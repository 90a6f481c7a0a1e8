/* What a program costs that does nothing, to compare with. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int empty(struct xdp_md *context) {
    (void)context;
    return XDP_PASS;
}

char overbank_license[] SEC("license") = "Apache-2.0";
