#define _GNU_SOURCE /* sched_getaffinity */
#include "run/affinity.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int masked_cpus(void) {
    for (int room = CPU_SETSIZE; room <= 1 << 20; room *= 4) { /* EINVAL: the kernel's mask is wider */
        cpu_set_t *set = CPU_ALLOC((size_t)room);
        if (!set)
            break;
        size_t size = CPU_ALLOC_SIZE((size_t)room);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < 1 << 20 ? (int)online : 1;
}

/* The first line of a file of the cgroup at `path`; false where there is none. */
static int read_line(const char *mount, const char *path, const char *file, char *line, int size) {
    char name[4096];
    int length = snprintf(name, sizeof name, "%s%s/%s", mount, path, file);
    FILE *open = length > 0 && (size_t)length < sizeof name ? fopen(name, "re") : NULL;
    if (!open)
        return 0;
    int got = fgets(line, size, open) != NULL;
    fclose(open);
    return got;
}

/* What one cgroup grants: time of CPUs in a period of time. */
static int granted(long long quota, long long period, int cpus) {
    if (quota <= 0 || period <= 0)
        return cpus;
    long long whole = quota / period + (quota % period != 0);
    return whole < cpus ? (int)whole : cpus;
}

static int granted_v2(const char *path, int cpus) {
    char line[128], *end;
    if (!read_line("/sys/fs/cgroup", path, "cpu.max", line, sizeof line))
        return cpus;
    long long quota = strtoll(line, &end, 10); /* "max" reads as 0: no limit */
    return granted(quota, strtoll(end, NULL, 10), cpus);
}

static int granted_v1(const char *path, int cpus) {
    char quota[64], period[64];
    if (!read_line("/sys/fs/cgroup/cpu", path, "cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line("/sys/fs/cgroup/cpu", path, "cpu.cfs_period_us", period, sizeof period))
        return cpus;
    return granted(strtoll(quota, NULL, 10), strtoll(period, NULL, 10), cpus); /* -1: no limit */
}

/* Whether a comma-separated list holds "cpu". */
static int lists_cpu(const char *list) {
    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == '\0' || at[3] == ','))
            return 1;
    return 0;
}

/* The limits of a cgroup and of those it lies in: cuts path down to its root. */
static int granted_up(char *path, int (*limit)(const char *, int), int cpus) {
    for (;;) {
        char *last = strrchr(path, '/');
        cpus = limit(last == path && !path[1] ? "" : path, cpus);
        if (!last)
            return cpus;
        *last = '\0';
    }
}

/* /proc/self/cgroup: lines of "id:controllers:path", version 2 being the one without controllers. */
static int granted_cpus(int cpus) {
    FILE *open = fopen("/proc/self/cgroup", "re");
    char line[4096];
    while (open && fgets(line, sizeof line, open)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        if (!*controllers)
            cpus = granted_up(path, granted_v2, cpus);
        else if (lists_cpu(controllers))
            cpus = granted_up(path, granted_v1, cpus);
    }
    if (open)
        fclose(open);
    return cpus;
}

int ow_usable_cpus(void) { return granted_cpus(masked_cpus()); }
