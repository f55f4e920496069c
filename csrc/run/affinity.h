/* How many CPUs this process may use. */
#ifndef ORTWIN_RUN_AFFINITY_H
#define ORTWIN_RUN_AFFINITY_H

/* At least 1: the affinity mask of the calling thread, and no more than the CPU quota of its cgroups (version 1 or 2)
 * rounded up. */
int ow_usable_cpus(void);

#endif
