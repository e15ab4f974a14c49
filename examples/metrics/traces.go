package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// folderVariable is the environment variable with the folder for a process that adds a batch and
// is killed: see traced.
const folderVariable = "DLTBATCH_EXAMPLE_ADD_IN"

// showTrace shows one trace through two processes: the first places an order within a span, and is
// killed with kill -9 before anything is posted; the second, which is this process, delivers the
// batch.
func showTrace(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "dltbatch-traces-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	first := exec.CommandContext(ctx, self)
	first.Env = append(os.Environ(), folderVariable+"="+dir)
	first.Stderr = os.Stderr
	err = first.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the first process did not end by kill -9: %w", err)
	}
	fmt.Fprintf(out, "process %d stored an order with its batch, and was killed with kill -9\n", first.Process.Pid)

	if err := deliverBatch(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "process %d delivered it; the trace:\n\n", os.Getpid())
	return printSpans(out, dir)
}

// addAndDie places an order within a span, as the handler of a request does, and kills its
// process.
func addAndDie(ctx context.Context, dir string) error {
	s, err := open(ctx, dir, newQuietLedger(), appendSpans(dir))
	if err != nil {
		return err
	}
	request, span := s.spans.Tracer("shop").Start(ctx, "POST /orders")
	if err := s.placeOrder(request, "b1", "customer-1"); err != nil {
		return err
	}
	span.End()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return errors.Join(self.Kill(), errors.New("still there"))
}

// newQuietLedger returns a ledger that never fails.
func newQuietLedger() dlt.Ledger {
	return ledgermem.New(&ledgermem.Options{CommitAfter: 100 * time.Millisecond})
}

// deliverBatch runs a Runner until the batch is final.
func deliverBatch(ctx context.Context, dir string) error {
	s, err := open(ctx, dir, newQuietLedger(), appendSpans(dir))
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.runner.Run(run) }()
	_, err = s.runner.Await(ctx, batch.Key{Service: "customer-1", ID: "b1"})
	stop()
	return errors.Join(err, <-ended, s.close(ctx)) // Run gives the observers time to finish
}

// span is a span in the form that a saver gets.
type span struct {
	Process           int
	Trace, ID, Parent string
	Name, Attributes  string
	Start, End        time.Time
	Failure           string
}

// spanSaver is an exporter that calls a function with each span.
type spanSaver func(span) error

// appendSpans returns a saver that appends spans to a file.
func appendSpans(dir string) spanSaver {
	return func(s span) (err error) {
		file, err := os.OpenFile(filepath.Join(dir, "spans"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		return json.NewEncoder(file).Encode(s)
	}
}

// ExportSpans implements [trace.SpanExporter].
func (save spanSaver) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	for _, s := range spans {
		var attributes []string
		for _, a := range s.Attributes() {
			attributes = append(attributes, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "dltbatch."), a.Value.Emit()))
		}
		one := span{
			Process: os.Getpid(), Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(),
			Parent: s.Parent().SpanID().String(), Name: s.Name(), Attributes: strings.Join(attributes, " "), Start: s.StartTime(), End: s.EndTime(),
		}
		if s.Status().Code == codes.Error {
			one.Failure = s.Status().Description
		}
		if err := save(one); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (spanSaver) Shutdown(context.Context) error { return nil }

// printSpans prints the spans that were saved in a folder, each below its parent.
func printSpans(out io.Writer, dir string) error {
	file, err := os.Open(filepath.Join(dir, "spans"))
	if err != nil {
		return err
	}
	defer file.Close()
	var root *span
	for d := json.NewDecoder(file); ; {
		var s span
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		indent := ""
		if root == nil {
			root = &s
			fmt.Fprintln(out, "trace", s.Trace)
		} else if s.Trace != root.Trace || s.Parent != root.ID {
			return fmt.Errorf("span %q is not of the trace", s.Name)
		} else {
			indent = "  "
		}
		fmt.Fprintf(out, "%s%-16s pid %d after %-6s took %-6s %s\n", indent, s.Name, s.Process,
			s.Start.Sub(root.Start).Round(time.Millisecond), s.End.Sub(s.Start).Round(time.Millisecond), s.Attributes)
	}
}
