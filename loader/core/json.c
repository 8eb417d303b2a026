/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

void h2d_json_init_file(struct h2d_json *j, FILE *out, bool pretty)
{
	*j = (struct h2d_json){.out = out, .pretty = pretty};
}
