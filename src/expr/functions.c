/* functions.c - the list of all functions of expressions.
 *
 * Tests: test_expr.c, test_every_function.py. */
#include "expr/fn.h"

/* One table a file; the last entry of each has no name. */
const hr_expr_function *const hr__expr_tables[] = {
    hr__fn_compare, hr__fn_logic,  hr__fn_arith,    hr__fn_math,  hr__fn_choose, hr__fn_set,
    hr__fn_cast,    hr__fn_string, hr__fn_search,   hr__fn_regex, hr__fn_time,   hr__fn_nested,
    hr__fn_random,  hr__fn_image,  hr__fn_features, NULL,
};
