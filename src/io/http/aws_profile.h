/* aws_profile.h - the profiles in the files of the AWS tools. */
#ifndef HR_AWS_PROFILE_H
#define HR_AWS_PROFILE_H

#include "base/all.h"

/* NULL: not given. Zero is fine. */
typedef struct hr_aws_profile {
    bool found; /* a file has its section */
    char *key_id, *secret, *token;
    char *region, *endpoint;
    char *role, *session_name, *external_id, *duration, *source_profile, *credential_source, *token_file, *mfa;
    char *process;
    char *sso_session, *sso_url, *sso_region, *sso_account, *sso_role;
} hr_aws_profile;

/* Adds the settings of a section of a file, where `out` has none. */
hr_status hr__aws_section_take(hr_aws_profile *out, const char *text, int64_t n, const char *section,
                               hr_error *err) HR_MUST_USE;
/* The settings of both files. Keys come from one of them, the file of credentials first: never an id of one with a
 * secret of the other. A file that is not there has no settings. */
hr_status hr__aws_profile_read(const char *profile, const char *credentials, const char *config, hr_aws_profile *out,
                               hr_error *err) HR_MUST_USE;
void hr__aws_profile_clear(hr_aws_profile *p); /* zero is fine */

#endif
