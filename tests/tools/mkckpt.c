/* SPDX-License-Identifier: Apache-2.0 */
#include "mkckpt.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"Usage: h2d-mkckpt [OPTIONS] OUT\n"
	"Makes a checkpoint of incompressible bytes that depend on the seed only.\n"
	"\n"
	"  --format F        safetensors, gguf, torch or cact; else by the name of OUT\n"
	"  --tensors N       that many tensors (4)\n"
	"  --size SIZE       bytes of all tensors together (1MiB); KiB MiB GiB understood\n"
	"  --mixed           tensors of unequal size\n"
	"  --prefix TEXT     what their names begin with (none)\n"
	"  --dtype D         of these tensors (F32)\n"
	"  --all-dtypes      one small tensor of every type of the format\n"
	"  --tensor NAME:DTYPE:SHAPE  one tensor, for example w:BF16:16x4; \\xNN in names;\n"
	"                    may be repeated\n"
	"  --shards N        safetensors: OUT is a folder with an index; gguf: splits\n"
	"  --unaligned       safetensors: tensor bytes begin at an odd offset\n"
	"  --alignment N     gguf: general.alignment (32)\n"
	"  --metadata K=V    may be repeated\n"
	"  --array K=N       gguf: arrays of N numbers (K) and N strings (K.text); repeatable\n"
	"  --seed N          (1)\n"
	"  --sync            fsync every file\n";

void die(const char *fmt, ...)
{
	va_list ap;

	fputs("h2d-mkckpt: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

void *need(void *p)
{
	if (!p)
		die("out of memory");
	return p;
}

static uint64_t number(const char *text)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB"};
	char *end;
	uint64_t v = strtoull(text, &end, 10);

	for (unsigned i = 0; i < 5; i++)
		if (end != text && !strcmp(end, units[i]) && v <= UINT64_MAX >> 10 * i)
			return v << 10 * i;
	die("'%s' is not a number", text);
}

static const struct type *types_of(const struct maker *m)
{
	return strcmp(m->format, "gguf") ? safetensors_types : gguf_types;
}

static const struct type *find_type(const struct maker *m, const char *name, size_t bytes)
{
	for (const struct type *t = types_of(m); t->name; t++)
		if (strlen(t->name) == bytes && !memcmp(t->name, name, bytes))
			return t;
	die("there is no type '%.*s' in %s", (int)bytes, name, m->format);
}

static struct tensor *add(struct maker *m)
{
	if (!(m->count & (m->count - 1)))
		m->tensors = need(realloc(m->tensors,
					  (m->count ? m->count * 2 : 1) * sizeof(*m->tensors)));
	m->tensors[m->count] = (struct tensor){0};
	return &m->tensors[m->count++];
}

static void size_up(struct tensor *t)
{
	uint64_t elements = 1;

	for (unsigned k = 0; k < t->rank; k++)
		if (__builtin_mul_overflow(elements, t->shape[k], &elements))
			die("%s: too large", t->name);
	if (elements % t->type->elements)
		die("%s: %s comes in blocks of %u", t->name, t->type->name, t->type->elements);
	if (__builtin_mul_overflow(elements / t->type->elements, (uint64_t)t->type->bytes,
				   &t->bytes))
		die("%s: too large", t->name);
}

static void set_name(struct tensor *t, const char *name, size_t bytes)
{
	t->name = need(calloc(1, bytes + 1));
	for (size_t i = 0; i < bytes; i++) {
		unsigned c = (unsigned char)name[i];

		if (c == '\\' && i + 3 < bytes && sscanf(name + i, "\\x%2x", &c) == 1)
			i += 3;
		t->name[t->name_bytes++] = (char)c;
	}
}

static void add_described(struct maker *m, const char *text)
{
	const char *shape = strrchr(text, ':'), *dtype = shape;
	struct tensor *t;

	while (dtype && dtype > text && *--dtype != ':')
		;
	if (!shape || dtype == text)
		die("'%s' is not NAME:DTYPE:SHAPE", text);
	t = add(m);
	set_name(t, text, (size_t)(dtype - text));
	t->type = find_type(m, dtype + 1, (size_t)(shape - dtype - 1));
	for (shape++; *shape;) {
		char *end;

		if (t->rank == RANK_MAX)
			die("%s: more than %d dimensions", t->name, RANK_MAX);
		t->shape[t->rank++] = strtoull(shape, &end, 10);
		if (end == shape || (*end && *end != 'x'))
			die("'%s' is not a shape such as 4x16", shape);
		shape = end + (*end == 'x');
	}
	size_up(t);
}

struct wishes {
	uint64_t tensors, size;
	const char *dtype, *prefix;
	bool mixed, all;
	char **described;
	size_t described_count;
};

static void add_equal(struct maker *m, const struct wishes *w)
{
	const struct type *type = find_type(m, w->dtype, strlen(w->dtype));
	uint64_t weights = 0, unit;
	char name[TEXT_MAX];

	/* Sizes in the proportion 1:2:…:16 over and over, or all the same. */
	for (uint64_t i = 0; i < w->tensors; i++)
		weights += w->mixed ? i % 16 + 1 : 1;
	unit = w->tensors ? w->size / weights : 0;
	for (uint64_t i = 0; i < w->tensors; i++) {
		struct tensor *t = add(m);
		uint64_t bytes = unit * (w->mixed ? i % 16 + 1 : 1);
		uint64_t elements = bytes / type->bytes * type->elements;

		snprintf(name, sizeof(name), "%slayers.%" PRIu64 ".weight", w->prefix, i);
		set_name(t, name, strlen(name));
		t->type = type;
		if (elements >= 4096 && !(elements % 1024)) {
			t->shape[0] = elements / 1024;
			t->shape[1] = 1024;
			t->rank = 2;
		} else {
			t->shape[0] = elements;
			t->rank = 1;
		}
		size_up(t);
	}
}

static void add_all_types(struct maker *m)
{
	char name[64];

	for (const struct type *type = types_of(m); type->name; type++) {
		struct tensor *t = add(m);

		snprintf(name, sizeof(name), "all.%s", type->name);
		set_name(t, name, strlen(name));
		t->type = type;
		t->shape[0] = 3;
		t->shape[1] = 256;
		t->rank = 2;
		size_up(t);
	}
}

/* Neighbours stay together, and every shard gets about the same bytes. */
static void deal_shards(struct maker *m)
{
	uint64_t total = 0, before = 0;

	for (size_t i = 0; i < m->count; i++)
		total += m->tensors[i].bytes;
	for (size_t i = 0; i < m->count && m->shards > 1; i++) {
		m->tensors[i].shard =
			total ? (unsigned)((double)before / (double)total * m->shards) : 0;
		before += m->tensors[i].bytes;
	}
}

static const char *format_of(const char *path)
{
	static const char *const ends[][2] = {{".gguf", "gguf"},
					      {".pt", "torch"},
					      {".pth", "torch"},
					      {".bin", "torch"},
					      {".cact", "cact"}};
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t k = strlen(ends[i][0]);

		if (n > k && !strcmp(path + n - k, ends[i][0]))
			return ends[i][1];
	}
	return "safetensors";
}

enum {
	OPT_FORMAT = 1,
	OPT_TENSORS,
	OPT_SIZE,
	OPT_MIXED,
	OPT_PREFIX,
	OPT_DTYPE,
	OPT_ALL,
	OPT_TENSOR,
	OPT_SHARDS,
	OPT_UNALIGNED,
	OPT_ALIGNMENT,
	OPT_METADATA,
	OPT_ARRAY,
	OPT_SEED,
	OPT_SYNC,
	OPT_HELP
};

static const struct option options[] = {
	{"format", required_argument, NULL, OPT_FORMAT},
	{"tensors", required_argument, NULL, OPT_TENSORS},
	{"size", required_argument, NULL, OPT_SIZE},
	{"mixed", no_argument, NULL, OPT_MIXED},
	{"prefix", required_argument, NULL, OPT_PREFIX},
	{"dtype", required_argument, NULL, OPT_DTYPE},
	{"all-dtypes", no_argument, NULL, OPT_ALL},
	{"tensor", required_argument, NULL, OPT_TENSOR},
	{"shards", required_argument, NULL, OPT_SHARDS},
	{"unaligned", no_argument, NULL, OPT_UNALIGNED},
	{"alignment", required_argument, NULL, OPT_ALIGNMENT},
	{"metadata", required_argument, NULL, OPT_METADATA},
	{"array", required_argument, NULL, OPT_ARRAY},
	{"seed", required_argument, NULL, OPT_SEED},
	{"sync", no_argument, NULL, OPT_SYNC},
	{"help", no_argument, NULL, OPT_HELP},
	{0},
};

static void parse(struct maker *m, struct wishes *w, int argc, char **argv)
{
	int c;

	m->metadata = need(calloc((size_t)argc, sizeof(*m->metadata)));
	m->arrays = need(calloc((size_t)argc, sizeof(*m->arrays)));
	w->described = need(calloc((size_t)argc, sizeof(*w->described)));
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case OPT_FORMAT:
			m->format = optarg;
			break;
		case OPT_TENSORS:
			w->tensors = number(optarg);
			break;
		case OPT_SIZE:
			w->size = number(optarg);
			break;
		case OPT_MIXED:
			w->mixed = true;
			break;
		case OPT_PREFIX:
			w->prefix = optarg;
			break;
		case OPT_DTYPE:
			w->dtype = optarg;
			break;
		case OPT_ALL:
			w->all = true;
			break;
		case OPT_TENSOR:
			w->described[w->described_count++] = optarg;
			break;
		case OPT_SHARDS:
			m->shards = (unsigned)number(optarg);
			break;
		case OPT_UNALIGNED:
			m->unaligned = true;
			break;
		case OPT_ALIGNMENT:
			m->alignment = number(optarg);
			break;
		case OPT_METADATA:
			if (!strchr(optarg, '='))
				die("--metadata takes KEY=VALUE");
			m->metadata[m->metadata_count++] = optarg;
			break;
		case OPT_ARRAY:
			if (!strchr(optarg, '='))
				die("--array takes KEY=COUNT");
			m->arrays[m->array_count++] = optarg;
			break;
		case OPT_SEED:
			m->seed = number(optarg);
			break;
		case OPT_SYNC:
			m->sync = true;
			break;
		case OPT_HELP:
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind != argc - 1) {
		fputs(usage, stderr);
		exit(2);
	}
	m->out = argv[optind];
	if (!m->format)
		m->format = format_of(m->out);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*write)(const struct maker *);
	} formats[] = {{"safetensors", write_safetensors},
		       {"gguf", write_gguf},
		       {"torch", write_torch},
		       {"cact", write_cact}};
	struct maker m = {.shards = 1, .seed = 1, .alignment = 32};
	struct wishes w = {.tensors = 4, .size = 1 << 20, .dtype = "F32", .prefix = ""};
	void (*write)(const struct maker *) = NULL;

	parse(&m, &w, argc, argv);
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (!strcmp(formats[i].name, m.format))
			write = formats[i].write;
	if (!write)
		die("there is no format '%s'", m.format);
	if (!m.alignment || m.alignment & (m.alignment - 1))
		die("--alignment takes a power of two");
	for (size_t i = 0; i < w.described_count; i++)
		add_described(&m, w.described[i]);
	if (w.all)
		add_all_types(&m);
	if (!w.described_count && !w.all)
		add_equal(&m, &w);
	deal_shards(&m);
	write(&m);
	for (size_t i = 0; i < m.count; i++)
		free(m.tensors[i].name);
	free(m.tensors);
	free(m.metadata);
	free(m.arrays);
	free(w.described);
	return 0;
}
