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

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/otelbatch"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// addIn names the folder for a process that adds a batch and is killed: see traced.
const addIn = "DLTBATCH_EXAMPLE_ADD_IN"

// traced shows one trace through two processes: the first adds a batch within a span, and is killed
// with kill -9 before anything is posted; the second, this one, delivers the batch.
func traced(ctx context.Context, out io.Writer) (err error) {
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
	first.Env = append(os.Environ(), addIn+"="+dir)
	first.Stderr = os.Stderr
	err = first.Run()
	if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the first process did not end by kill -9: %w", err)
	}
	fmt.Fprintf(out, "process %d added a batch, and was killed with kill -9\n", first.Process.Pid)

	if err := deliver(ctx, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "process %d delivered it; the trace:\n\n", os.Getpid())
	return printSpans(out, dir)
}

// addAndDie adds a batch within a span, as the handler of a request would, and kills its process.
func addAndDie(ctx context.Context, dir string) error {
	runner, provider, _, err := open(ctx, dir)
	if err != nil {
		return err
	}
	request, span := provider.Tracer("shop").Start(ctx, "POST /orders")
	if err := runner.Add(request, batch.Batch{Service: "customer-1", ID: "b1", Payload: []byte("x")}); err != nil {
		return err
	}
	span.End()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return errors.Join(self.Kill(), errors.New("still there"))
}

// deliver runs a Runner until the batch is final.
func deliver(ctx context.Context, dir string) (err error) {
	runner, _, done, err := open(ctx, dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	_, err = runner.Await(ctx, batch.Key{Service: "customer-1", ID: "b1"})
	stop()
	return errors.Join(err, <-ended, done()) // Run gives the observers time
}

// open returns a Runner on the database of a folder. Spans go to a file there.
func open(ctx context.Context, dir string) (_ *dltbatch.Runner, _ *trace.TracerProvider, done func() error, err error) {
	db, err := sqliteopen.Open(filepath.Join(dir, "queue.db"))
	if err != nil {
		return nil, nil, nil, err
	}
	st, err := sqlite.New(db, nil)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	if err := st.Migrate(ctx); err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	// A sampler that follows its parent, and an exporter: Jaeger's or Tempo's take the place of this one.
	provider := trace.NewTracerProvider(trace.WithSampler(trace.ParentBased(trace.AlwaysSample())), trace.WithSyncer(spanFile(filepath.Join(dir, "spans"))))
	traces, err := otelbatch.NewTraces(provider)
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 100 * time.Millisecond})
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{TraceParent: otelbatch.TraceParent, Observers: []batch.Observer{traces}})
	if err != nil {
		return nil, nil, nil, errors.Join(err, db.Close())
	}
	return runner, provider, func() error { return errors.Join(provider.Shutdown(context.WithoutCancel(ctx)), db.Close()) }, nil
}

// span is a line of a spanFile.
type span struct {
	Process           int
	Trace, ID, Parent string
	Name, Attributes  string
	Start, End        time.Time
	Failure           string
}

// spanFile is an exporter that appends spans to a file.
type spanFile string

// ExportSpans implements [trace.SpanExporter].
func (f spanFile) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) (err error) {
	file, err := os.OpenFile(string(f), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for _, s := range spans {
		var attributes []string
		for _, a := range s.Attributes() {
			attributes = append(attributes, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "dltbatch."), a.Value.Emit()))
		}
		line := span{
			Process: os.Getpid(), Trace: s.SpanContext().TraceID().String(), ID: s.SpanContext().SpanID().String(),
			Parent: s.Parent().SpanID().String(), Name: s.Name(), Attributes: strings.Join(attributes, " "), Start: s.StartTime(), End: s.EndTime(),
		}
		if s.Status().Code == codes.Error {
			line.Failure = s.Status().Description
		}
		if err := json.NewEncoder(file).Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (spanFile) Shutdown(context.Context) error { return nil }

// printSpans prints the spans of a folder, each below its parent.
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
		fmt.Fprintf(out, "%s%-20s process %-7d after %-8s took %-8s %s\n", indent, s.Name, s.Process,
			s.Start.Sub(root.Start).Round(time.Millisecond), s.End.Sub(s.Start).Round(time.Millisecond), s.Attributes)
	}
}
