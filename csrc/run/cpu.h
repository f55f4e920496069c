/* Which instruction set to run: detection, choice, names. The only file that dispatches. */
#ifndef ORTWIN_RUN_CPU_H
#define ORTWIN_RUN_CPU_H

#include "kernels/kernels.h"
#include "ortwin.h"

typedef struct ow_isa {
    const char *name;
    const ow_kernels *kernels;
} ow_isa;

/* The instruction set called `name`; for NULL or "" the one ORTWIN_ISA names, else the widest available. */
ortwin_status ow_choose_isa(const char *name, const ow_isa **isa, ortwin_error *error);

#endif
