/* cmd_completion.c - headrace completion: what a shell needs to complete command lines, from the commands' own tables.
 *
 * Each script asks nothing of the command while the user types: the words stand in it.
 *
 * Tests: test_cli_terminal.py. */
#include "cli/cli.h"

static const struct option long_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

static void print_commands(const char *between)
{
    for (int i = 0; cli_command(i); i++)
        printf("%s%s", i ? between : "", cli_command(i)->name);
}

static void print_options(const command *cmd, const char *between)
{
    for (const struct option *o = cmd->options; o->name; o++)
        printf("%s--%s", o == cmd->options ? "" : between, o->name);
}

static void print_formats(bool written, const char *between)
{
    hr_format_info f = { .struct_bytes = sizeof f };
    bool first = true;

    for (int i = 0; !hr_format_at(i, &f, NULL); i++) {
        if (written && !f.can_write)
            continue;
        printf("%s%s", first ? "" : between, f.name);
        first = false;
    }
}

static void print_functions(const char *between)
{
    hr_function_info f = { .struct_bytes = sizeof f };
    bool first = true;

    for (int i = 0; !hr_function_at(i, &f, NULL); i++) {
        if (f.is_aggregate)
            continue;
        printf("%s%s", first ? "" : between, f.name);
        first = false;
    }
}

static void print_bash(void)
{
    puts("# headrace: completion for bash. In ~/.bashrc: source <(headrace completion bash)\n"
         "_headrace()\n"
         "{\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\"\"\n"
         "    COMPREPLY=()\n"
         "    if ((COMP_CWORD == 1)); then");
    printf("        words=\"");
    print_commands(" ");
    printf(" --help --version\"\n    else\n        case ${COMP_WORDS[1]}:$before in\n        *:--format | *:-f | "
           "formats:formats) words=\"");
    print_formats(false, " ");
    printf("\" ;;\n        *:--to) words=\"");
    print_formats(true, " ");
    printf("\" ;;\n        functions:functions) words=\"");
    print_functions(" ");
    puts("\" ;;\n        completion:completion) words=\"bash zsh fish\" ;;\n        *) case ${COMP_WORDS[1]}:$word in");
    for (int i = 0; cli_command(i); i++) {
        printf("            %s:-*) words=\"", cli_command(i)->name);
        print_options(cli_command(i), " ");
        puts("\" ;;");
    }
    puts("            esac ;;\n"
         "        esac\n"
         "    fi\n"
         "    [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o bashdefault -o default -F _headrace headrace");
}

/* Of zsh, which describes each word; ' is the only character that its quotes need care for. */
static void print_zsh_text(const char *s)
{
    for (; *s; s++)
        if (*s == '\'')
            fputs("'\\''", stdout);
        else if (*s == ':')
            fputs("\\:", stdout);
        else
            putchar(*s);
}

static void print_zsh(void)
{
    puts("#compdef headrace\n"
         "# headrace: completion for zsh. In ~/.zshrc: source <(headrace completion zsh)\n"
         "_headrace()\n"
         "{\n"
         "    local before=${words[CURRENT-1]} word=${words[CURRENT]}\n"
         "    local -a commands=(");
    for (int i = 0; cli_command(i); i++) {
        printf("        '%s:", cli_command(i)->name);
        print_zsh_text(cli_command(i)->doc);
        puts("'");
    }
    puts("    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command commands\n"
         "        return\n"
         "    fi\n"
         "    case ${words[2]}:$before in");
    printf("    *:--format | *:-f | formats:formats) compadd -- ");
    print_formats(false, " ");
    printf(" ;;\n    *:--to) compadd -- ");
    print_formats(true, " ");
    printf(" ;;\n    functions:functions) compadd -- ");
    print_functions(" ");
    puts(" ;;\n    completion:completion) compadd -- bash zsh fish ;;\n    *) case ${words[2]}:$word in");
    for (int i = 0; cli_command(i); i++) {
        printf("        %s:-*) compadd -- ", cli_command(i)->name);
        print_options(cli_command(i), " ");
        puts(" ;;");
    }
    puts("        *) _files ;;\n"
         "        esac ;;\n"
         "    esac\n"
         "}\n"
         "compdef _headrace headrace");
}

/* Between the single quotes of fish. */
static void print_fish_text(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'' || *s == '\\')
            putchar('\\');
        putchar(*s);
    }
}

static void print_fish(void)
{
    puts("# headrace: completion for fish. In ~/.config/fish/config.fish: headrace completion fish | source");
    for (int i = 0; cli_command(i); i++) {
        const command *cmd = cli_command(i);

        printf("complete -c headrace -n __fish_use_subcommand -f -a %s -d '", cmd->name);
        print_fish_text(cmd->doc);
        puts("'");
        for (const struct option *o = cmd->options; o->name; o++)
            printf("complete -c headrace -n '__fish_seen_subcommand_from %s' -l %s%s\n", cmd->name, o->name,
                   o->has_arg ? " -r" : "");
    }
    printf("complete -c headrace -n '__fish_seen_subcommand_from formats' -f -a '");
    print_formats(false, " ");
    printf("'\ncomplete -c headrace -n '__fish_seen_subcommand_from functions' -f -a '");
    print_functions(" ");
    puts("'\ncomplete -c headrace -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'");
    printf("complete -c headrace -l format -x -a '");
    print_formats(false, " ");
    printf("'\ncomplete -c headrace -l to -x -a '");
    print_formats(true, " ");
    puts("'");
}

static int completion_run(const command *cmd, int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
    int option;

    optind = 0;
    while ((option = cli_option(cmd, argc, argv, "h")) != -1)
        return option == 'h' ? cli_help(cmd) : EXIT_MISUSED;
    for (int i = 0; argc - optind == 1 && i < LEN(shells); i++)
        if (!strcmp(argv[optind], shells[i].name)) {
            shells[i].print();
            return 0;
        }
    return cli_misused(cmd, "expected the name of a shell: bash, zsh or fish");
}

const command cmd_completion = {
    .name = "completion",
    .args = "bash|zsh|fish",
    .doc = "Prints what a shell needs to complete commands and options",
    .more = "  -h, --help               this text\n"
            "\nFor bash: source <(headrace completion bash)\n",
    .options = long_options,
    .run = completion_run,
};
