// Command dltbatch shows the batches in a store of dltbatch and acts upon them: which batches wait
// and why, what operators did, and every act that a person may do. It needs the database and no
// ledger.
//
//	go install github.com/dltbatch/dltbatch/cmd/dltbatch@latest
//
// Built without cgo it is a static program, and opens SQLite files with a driver in pure Go.
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
