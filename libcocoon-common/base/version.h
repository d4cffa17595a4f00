/* What was built: from git when the build had it, else "unknown". Literals for the life of the process. */
#ifndef CC_BASE_VERSION_H
#define CC_BASE_VERSION_H

/* `git describe`, e.g. "v0.1.0-3-gabcdef1". */
const char *cc_version(void);
/* The commit. */
const char *cc_revision(void);
/* RFC 3339 time of the commit: builds of one commit are equal. */
const char *cc_build_time(void);
/* "<program>/<version> (linux/<arch>)", the arch as Go names it. Caller frees. contract/04 C5.9 */
char *cc_user_agent_new(const char *program);

#endif
