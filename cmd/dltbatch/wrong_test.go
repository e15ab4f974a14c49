package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// An invalid name on the command line is a usage error with any database, and is refused before
// the database is asked: some databases refuse such a name with an error of their own, which would
// look like a failure.
func TestWrongNamesAreWrongUse(t *testing.T) {
	long, bad := strings.Repeat("x", 300), "a\xff"
	for _, name := range []string{long, bad, "a\x01b"} {
		for _, args := range [][]string{
			{"show", name}, {"explain", name}, {"explain", "--service", name, "b"}, {"show", "--service", "s", "--data-change-id", name},
			{"list", "--service", name}, {"orders", "--party", name}, {"orders", "--batch", name}, {"export", "--service", name},
			{"search", "--service", name}, {"history", name}, {"history", "--lane", name}, {"lanes", name}, {"settings", name},
			{"agree", name, "--reason", "r", "--yes"}, {"pause", name, "--reason", "r"}, {"policy", name, "halt", "--reason", "r"},
			{"cancel", name, "--reason", "r", "--yes"}, {"decide", name, "committed", "--reason", "r", "--yes"},
			{"bulk", "show", name}, {"bulk", "resume", name, "--reason", "r"}, {"bulk", "preview", "cancel", "--service", name},
		} {
			var errs bytes.Buffer
			a := newApp()
			a.stdout, a.stderr = &errs, &errs
			a.getenv = func(string) string { return "" }
			a.openDatabase = func(context.Context, target) (*database, error) {
				return nil, errors.New("the database was asked")
			}
			assert.Equal(t, exitUsage, a.run(t.Context(), args), "%q: %s", args, errs.String())
		}
	}
	inStores(t, func(s *testCommand) {
		s.add("", "b1")
		assert.Contains(s, s.runOK("lanes", ""), "1", "an empty service is a lane")
		assert.Equal(s, batch.Queued, s.readRecord("b1").State)
	})
}

// failingReader is an input that cannot be read.
type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

// An error of a file or of the input is not reported as a failure of the database.
func TestFilesAndInputsAreNoFailureOfTheDatabase(t *testing.T) {
	inStores(t, func(s *testCommand) {
		s.add("s", "b1")
		dir := s.TempDir()
		assert.Contains(s, s.runFailing(exitUsage, "bulk", "preview", "cancel", "--out", dir+"/none/x"), "--out")
		assert.Contains(s, s.runFailing(exitUsage, "bulk", "preview", "cancel", "--out", dir), "--out")
		assert.Contains(s, s.runFailing(exitUsage, "bulk", "run", dir, "--token", "t", "--reason", "r"), "read the selection")

		var errs bytes.Buffer
		a := newApp()
		a.stdin, a.stdout, a.stderr = failingReader{}, &errs, &errs
		a.openDatabase = func(context.Context, target) (*database, error) { return newDatabase(s.st, func() {}) }
		assert.Equal(s, exitRefused, a.run(s.Context(), []string{"cancel", "b1", "--actor", "ada", "--reason", "r"}), errs.String())
		assert.Contains(s, errs.String(), "not confirmed, so nothing was done: read the confirmation")
		assert.Equal(s, batch.Queued, s.readRecord("b1").State)
	})
}

// An error is one line, and repeats nothing: pgx joins the errors of all addresses that it tried.
func TestAnErrorIsOneLine(t *testing.T) {
	assert.Equal(t, "a: refused; b: refused", joinDistinctLines("a: refused\nb: refused\na: refused"))
}
