/* entry.c - the program headrace. The Python package has the command in its module instead: py_command.c.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
