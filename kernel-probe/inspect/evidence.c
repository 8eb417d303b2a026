/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of evidence: each names a place that a disassembler shows too. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "internal.h"

enum { EVIDENCE_MAX = 256 };

int ins_evidence(struct ins_analysis *a, const char *kind, struct ins_place place,
		 const char *format, ...)
{
	struct h2d_module_report *r = a->report;
	struct h2d_inspect_evidence *e;
	va_list args;

	if (r->evidence_count == EVIDENCE_MAX)
		return 0;
	if (!r->evidence)
		r->evidence = h2d_mem->calloc(EVIDENCE_MAX, sizeof(*r->evidence));
	if (!r->evidence)
		return H2D_E_NOMEM;
	e = &r->evidence[r->evidence_count++];
	snprintf(e->kind, sizeof(e->kind), "%s", kind);
	va_start(args, format);
	vsnprintf(e->statement, sizeof(e->statement), format, args);
	va_end(args);
	if (!place.section)
		return 0;
	if (a->image->sections[place.section].name[0])
		snprintf(e->section, sizeof(e->section), "%s",
			 a->image->sections[place.section].name);
	else
		snprintf(e->section, sizeof(e->section), "section %u", place.section);
	e->address = place.address;
	if (ins_function_at(a->image, place))
		snprintf(e->function, sizeof(e->function), "%s",
			 ins_function_at(a->image, place)->name);
	return 0;
}
