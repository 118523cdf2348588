/* Nobody answers: each mode decides as it says, within the budget, and no secret is told. */
#include "check.h"

/* Port 1 of this machine: refused at once. */
static const char *const NOBODY = "redis://:hunter2@127.0.0.1:1";

static sg_decision decide(sg_limiter *limiter, int32_t on_outage, const char *spec) {
    sg_limit *limit = NULL;
    sg_decision d;
    OK(sg_limit_open_on_outage(limiter, "outage", spec, on_outage, &limit));
    OK(sg_try_acquire(limit, "k", 1, 1, &d));
    CHECK(d.source == SG_SOURCE_OUTAGE);
    sg_limit_close(limit);
    return d;
}

int main(void) {
    sg_limiter *limiter = NULL;
    sg_limiter_status status;
    sg_options options;
    sg_limit *limit;
    sg_decision d;
    alarm(60);
    OK(sg_options_init(&options));
    options.timeout_us = 200000;
    options.on_outage = SG_ON_OUTAGE_RAISE;
    OK(sg_limiter_open(NOBODY, &options, &limiter));

    limit = open_limit(limiter, "raise", "10/h");
    memset(&d, 0x55, sizeof d);
    FAILS(sg_try_acquire(limit, "k", 1, 1, &d), SG_ERR_OUTAGE, "");
    CHECK(strlen(sg_last_error_message()) > 0 && strstr(sg_last_error_message(), "hunter2") == NULL);
    CHECK(d.limit == 0x5555555555555555);
    sg_limit_close(limit);

    d = decide(limiter, SG_ON_OUTAGE_ALLOW, "1/h");
    CHECK(d.allowed);
    d = decide(limiter, SG_ON_OUTAGE_DENY, "1/h");
    CHECK(!d.allowed);
    d = decide(limiter, SG_ON_OUTAGE_SHARE, "2/h");
    CHECK(d.limit <= 2);

    OK(sg_status(limiter, &status));
    CHECK(status.state != SG_STORE_UP && status.state != SG_STORE_CLOSED);
    CHECK(memchr(status.last_error, '\0', sizeof status.last_error) != NULL);
    CHECK(strstr(status.last_error, "hunter2") == NULL);
    printf("outage: %s, \"%s\"\n", sg_store_state_name(status.state), status.last_error);
    sg_limiter_close(limiter);
    return 0;
}
