/* Ends the program where a call is not answered as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include "overbank.h"
#include <stdio.h>
#include <stdlib.h>

#define OK(call) STATUS(OVERBANK_OK, call)

#define STATUS(expected, call)                                                                                     \
    do {                                                                                                           \
        int32_t found_ = (call);                                                                                   \
        if (found_ != (int32_t)(expected)) {                                                                       \
            fprintf(stderr, "%s:%d: %s is %d, not %d: %s\n", __FILE__, __LINE__, #call, (int)found_, (int)(expected), \
                    overbank_last_error());                                                                        \
            exit(1);                                                                                               \
        }                                                                                                          \
    } while (0)

#define TRUE(what)                                                              \
    do {                                                                        \
        if (!(what)) {                                                          \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);  \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

#endif
