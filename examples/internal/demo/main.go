// Package demo has parts that the example programs share: the end by Ctrl-C, a line that is
// refreshed in place, and a worker process that can be killed.
package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program and returns when it is done; live is true if out is a terminal. If out is
// not a terminal, such as a pipe, lines are broken at 100 columns. After Ctrl-C or a SIGTERM Main
// ends the context, and exits with status 130; after an error it exits with 1.
func Main(name string, run func(ctx context.Context, out io.Writer, live bool) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	err := func() error {
		if isTerminal(os.Stdout) {
			return run(ctx, os.Stdout, true)
		}
		out := &columnWriter{out: os.Stdout}
		defer out.writeRest()
		return run(ctx, out, false)
	}()
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(os.Stderr, "\n%s: interrupted; everything is cleaned up\n", name)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\n%s: %v\n", name, err)
		os.Exit(1)
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
