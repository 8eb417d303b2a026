/* SPDX-License-Identifier: Apache-2.0 */
/* stdout, whose failures must be known and named: stdio forgets the errno of a failed flush. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static ssize_t write_out(void *cookie, const char *data, size_t bytes)
{
	struct h2d_cli *cli = cookie;
	size_t done = 0;

	while (done < bytes && !cli->out_errno) {
		ssize_t n = write(STDOUT_FILENO, data + done, bytes - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			cli->out_errno = errno;
		/* A pipe that takes no more: a signal cuts the write short, or stops it. */
		if (done < bytes && !cli->out_errno && h2d_signals_caught())
			cli->out_errno = EINTR;
	}
	/* 0 tells stdio of the error; whatever comes later is thrown away. */
	return cli->out_errno ? 0 : (ssize_t)bytes;
}

int h2d_cli_open_out(struct h2d_cli *cli)
{
	cookie_io_functions_t io = {.write = write_out};

	cli->out = fopencookie(cli, "w", io);
	if (!cli->out)
		return -1;
	/* A terminal sees every line at once, as with stdout itself. */
	setvbuf(cli->out, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, 1 << 16);
	return 0;
}

int h2d_cli_close_out(struct h2d_cli *cli, int exit)
{
	int err;

	fflush(cli->out);
	err = cli->out_errno;
	cli->out_errno = err ? err : EIO; /* what is left goes nowhere */
	fclose(cli->out);
	if (close(STDOUT_FILENO) && !err)
		err = errno;
	if (!err)
		return exit;
	if (exit && exit != H2D_EXIT_NEGATIVE && exit != H2D_EXIT_UNKNOWN)
		return exit; /* what went wrong before was told */
	/* No document about it can be written. */
	cli->document_begun = true;
	cli->reported = false;
	/* The reader has seen enough, as in `h2d ls model | head`: the status tells it. */
	if (err == EPIPE)
		return h2d_cli_failure(cli, H2D_EXIT_SYSTEM);
	if (err == EINTR)
		return h2d_cli_fail(cli, H2D_STAGE_LOAD, H2D_E_CANCELLED, "stdout");
	return h2d_cli_error(cli, h2d_cli_failure(cli, H2D_EXIT_SYSTEM),
			     "cannot write to stdout: %s", strerror(err));
}
