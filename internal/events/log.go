package events

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// The log lines about a Run, in addition to those of events, which begin with the events' kinds.
const (
	lineStarted  = "started"
	lineStopping = "stopping"
	lineStopped  = "stopped"
	lineLost     = "events lost: an observer is too slow"
	linePanicked = "observer panicked"
	lineLate     = "late outcome changed nothing"
	lineLosses   = "the store lacks abilities"
)

const (
	// sumInterval is the time between two lines about a repeated event.
	sumInterval = time.Minute
	// maxSums bounds the number of things that are summed up.
	maxSums = 4096
)

// topic is the subject of a line of the log. Lines of one topic are summed up.
type topic struct {
	text    string
	part    string // the part or the ledger that the line is about
	service batch.ServiceID
	reason  string
}

// writeLine writes a line. The line of a sum has more attributes. over is true if the topic has
// not occurred since the line before.
type writeLine func(over bool, more ...slog.Attr)

func newSums() *repetitions[topic, writeLine] {
	return newRepeats[topic](sumInterval, maxSums, func(s summary[writeLine]) {
		more := []slog.Attr{slog.Int("times", s.count), slog.Duration("for", s.span)}
		if s.isLast {
			more = append(more, slog.Bool("over", true))
		}
		s.last(s.isLast, more...)
	})
}

// logOnce writes a line to the log, unless a line of its topic was written before and the topic is
// not over. It then only counts the line and returns false (docs/operations.md#logs). Only the
// first line has the stack of a panic.
func (r *Reporter) logOnce(ctx context.Context, level slog.Level, about topic, err error, attrs ...slog.Attr) (first bool) {
	attrs = slices.Clone(attrs) // the sums read it later, and the caller changes its own
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	first = r.repeats.note(about, func(over bool, more ...slog.Attr) {
		at := level
		if over {
			at = slog.LevelInfo
		}
		r.log.LogAttrs(ctx, at, about.text, slices.Concat(attrs, more)...)
	})
	if first {
		r.log.LogAttrs(ctx, level, about.text, slices.Concat(attrs, stackOf(err))...)
	}
	return first
}

// logEvent writes an event to the log.
func (r *Reporter) logEvent(ctx context.Context, e batch.Event) {
	level := levelOf(e)
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := attributes(e)
	switch e.Kind {
	case batch.EventPaused, batch.EventResumed, batch.EventLaneHeld, batch.EventTrouble:
		if r.logOnce(ctx, level, topicOf(e), e.Err, attrs...) {
			return
		}
		level = slog.LevelDebug
		if !r.log.Enabled(ctx, level) {
			return
		}
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	r.log.LogAttrs(ctx, level, string(e.Kind), append(attrs, stackOf(e.Err)...)...)
}

// levelOf returns the level of an event: Error and Warn if a person should look, Info for a change
// that an operator wants to find later, and Debug for all others.
func levelOf(e batch.Event) slog.Level {
	switch e.Kind {
	case batch.EventOrderBreach, batch.EventVanished:
		return slog.LevelError
	case batch.EventDecision, batch.EventHalted, batch.EventQuarantined, batch.EventLaneHeld, batch.EventTrouble:
		if loop.Panicked(e.Err) {
			return slog.LevelError
		}
		return slog.LevelWarn
	case batch.EventPaused:
		kind, _ := errors.AsType[*batch.SubmissionError](e.Err)
		switch {
		case kind != nil && kind.Kind == batch.KindBusy:
			return slog.LevelInfo
		case kind != nil && kind.Kind == batch.KindMisconfigured:
			return slog.LevelError
		}
		return slog.LevelWarn
	case batch.EventOperated, batch.EventResumed:
		return slog.LevelInfo
	case batch.EventFinal:
		if e.State == batch.Rejected || e.State == batch.Invalid { // the batch has ended badly, and the line has the reason
			return slog.LevelInfo
		}
	}
	return slog.LevelDebug
}

// topicOf returns the topic of an event that may be repeated.
func topicOf(e batch.Event) topic {
	t := topic{text: string(e.Kind), part: cmp.Or(e.Part, e.Ledger), service: e.Key.Service}
	if e.Err != nil {
		t.reason = withoutNumbers(e.Err.Error())
	}
	return t
}

// withoutNumbers leaves out the words with a digit: ids, counts, durations and ports differ from
// one time to the next.
func withoutNumbers(text string) string {
	const most = 256
	var b strings.Builder
	for word := range strings.FieldsSeq(text) {
		if b.Len() > most {
			break
		}
		if strings.ContainsAny(word, "0123456789") {
			word = "#"
		}
		b.WriteString(word)
		b.WriteByte(' ')
	}
	return b.String()
}

// attributes returns the fields of an event that are set, without its kind and its error.
func attributes(e batch.Event) []slog.Attr {
	e.Err = nil
	return e.LogValue().Group()[1:]
}

// stackOf returns the stack of a panic, if err is one.
func stackOf(err error) []slog.Attr {
	var p *loop.PanicError
	if !errors.As(err, &p) {
		return nil
	}
	return []slog.Attr{slog.String("stack", string(p.Stack))}
}
