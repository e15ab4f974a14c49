// Command dltbatch shows and mends the batches in a store of dltbatch: the waiting batches and the
// cause, the acts of operators upon them, and every act that a person may do. It needs the
// database and no ledger.
//
//	go install github.com/dltbatch/dltbatch/cmd/dltbatch@latest
//
// Built without cgo it is a static program, and opens SQLite files with a driver that is Go only.
// docs/command.md lists its commands, their JSON and their exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
