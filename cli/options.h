/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file options.h
 * An option is data: parsing, --help, the manual pages and the completion all read these
 * tables, so that none of them can know an option that another does not.
 */
#ifndef H2D_CLI_OPTIONS_H
#define H2D_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2d_cli;

enum h2d_option_kind {
	H2D_OPTION_FLAG,   /**< bool */
	H2D_OPTION_COUNT,  /**< unsigned, one more each time */
	H2D_OPTION_TEXT,   /**< const char * */
	H2D_OPTION_TEXTS,  /**< struct h2d_texts, may be repeated */
	H2D_OPTION_NUMBER, /**< uint64_t between min and max */
	H2D_OPTION_SIZE,   /**< uint64_t bytes, KiB MiB GiB TiB understood */
	H2D_OPTION_CHOICE, /**< const char *, one of a list */
};

/** What a word may be: checked (choices, paths) and offered by the completion. */
enum h2d_word_kind {
	H2D_WORD_ANY,
	H2D_WORD_FILE,
	H2D_WORD_PATH,	  /**< a transfer path */
	H2D_WORD_DEVICE,  /**< a device spec */
	H2D_WORD_SHARE,	  /**< a rule of --split */
	H2D_WORD_COMMAND, /**< a sub-command of h2d */
};

/** Values of an option that may be repeated; `items` is malloc'd, the words belong to argv. */
struct h2d_texts {
	const char **items;
	size_t count;
};

struct h2d_option {
	const char *name; /**< without the dashes; NULL ends a table */
	char letter;	  /**< or 0 */
	enum h2d_option_kind kind;
	const char *argument;	    /**< "SIZE"; NULL for flags and counts */
	const char *help;	    /**< sentences; the first one is the short help */
	const char *const *choices; /**< of a choice, ended by NULL */
	enum h2d_word_kind word;
	size_t offset; /**< of the value in the command's values */
	uint64_t min, max;
};

/** Options that belong together under one heading. */
struct h2d_option_table {
	const char *title;
	const struct h2d_option *options;
};

/** Options of one call: every table with the values its offsets refer to. */
struct h2d_parse_set {
	const struct h2d_option_table *table;
	void *values;
};

enum { H2D_PARSE_SETS_MAX = 8 };

struct h2d_parser {
	struct h2d_cli *cli; /**< for messages */
	struct h2d_parse_set sets[H2D_PARSE_SETS_MAX];
	size_t set_count;
	bool stop_at_word; /**< the first word that is no option, or "--", ends the parsing */
};

/**
 * Parse argv[*index …]. Words that are no options are moved to the front of argv[*index …], in
 * order, and their count is returned; with stop_at_word, *index is left at the first word.
 * Everything behind "--" is a word.
 * @return count of words, or -1 after a usage error was told
 */
int h2d_options_parse(const struct h2d_parser *parser, int argc, char **argv, int *index);

/** Release what h2d_options_parse() allocated in a table's values. */
void h2d_options_release(const struct h2d_option_table *table, void *values);

/** The words that an option's value is one of, ended by NULL; or NULL: others are allowed. */
const char *const *h2d_option_choices(const struct h2d_option *option);

/** A count of bytes with an optional unit. @return NULL, or what is wrong (static text) */
const char *h2d_size_parse(const char *text, uint64_t *bytes);

/** The word of `words` (ended by NULL) that `wrong` was probably meant to be, or NULL. */
const char *h2d_suggest(const char *wrong, const char *const *words);

/** Names of all transfer paths, ended by NULL; static after the first call. */
const char *const *h2d_path_names(void);
/** Back-ends that the documentation speaks of, whether or not this build has them; ended by
 *  NULL. */
extern const char *const h2d_known_backends[];
/** Whether a list ended by NULL has the word of `bytes` bytes. */
bool h2d_word_in(const char *const *list, const char *word, size_t bytes);
/** Names of all device back-ends, ended by NULL; static after the first call. */
const char *const *h2d_backend_names(void);

#endif
