/* function_cases.h - a function of expressions, what goes in and what comes out, as a line of text.
 *
 * An argument is its type and its rows, "int32: 1|null|-3"; rows are read as a cast from text reads them. "=string: x"
 * is a constant. Lists, which no cast makes, are "list<int32>: 1,2|null|": items separated by commas. */
#ifndef FUNCTION_CASES_H
#define FUNCTION_CASES_H

#include "arrays.h"
#include "expr/fn.h"

typedef struct function_case {
    const char *function, *settings[3], *args[4];
    const char
        *want; /* "type: values", rows as hr__array_print_value has them, separated by blanks; or a part of an error */
    hr_status st;
} function_case;

/* Every case: what it gives, over the rows and over a slice of longer columns, and that each failure inside is
 * survived. */
void check_function_cases(const function_case *cases, int n);

#endif
