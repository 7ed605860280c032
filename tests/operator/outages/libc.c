/* The test preloads this library into the operator (LD_PRELOAD). The library can give the operator a wrong wall clock,
   and a DNS server that does not respond. The test controls the library through the file that OSDPL_TEST_LIBC names. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The content of the file; tests/operator/outages/libc.rs has the same order. */
struct controls {
    int64_t clock_offset; /* Seconds that the wall clock is ahead. */
    int64_t dns_is_silent;
    int64_t waiting_lookups; /* The number of lookups that wait for the DNS server. */
};

static volatile struct controls *controls;

__attribute__((constructor)) static void attach(void) {
    int file = open(getenv("OSDPL_TEST_LIBC"), O_RDWR | O_CLOEXEC);
    void *page = mmap(NULL, sizeof *controls, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    controls = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && controls) now->tv_sec += controls->clock_offset;
    return failed;
}

/* Waits while the test makes the DNS server silent. Then finds no address for names in the cluster, and for all other
   names one address that is reserved for documentation. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*original)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        (int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **))dlsym(RTLD_NEXT, "getaddrinfo");
    __atomic_add_fetch(&controls->waiting_lookups, 1, __ATOMIC_SEQ_CST);
    while (controls->dns_is_silent) usleep(10000);
    __atomic_sub_fetch(&controls->waiting_lookups, 1, __ATOMIC_SEQ_CST);
    if (strstr(host, ".svc.")) return EAI_NONAME;
    return original("192.0.2.7", service, hints, found);
}
