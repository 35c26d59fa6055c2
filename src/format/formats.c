/* formats.c - the list of all formats, made of HR_FORMATS in format.h. Only this file knows the folders of the formats.
 *
 * Tests: test_formats.py. */
#include "format/format.h"

#define LISTED(name) &hr__format_##name,

const hr_format *const hr__formats[] = { HR_FORMATS(LISTED) NULL };
