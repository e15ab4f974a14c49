package dltbatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/dltbatch/dltbatch/internal/repeats"
)

const (
	// sumEvery is how often the log has a line about what happens again and again.
	sumEvery = time.Minute
	// maxSums bounds the number of things that are summed up.
	maxSums = 4096
)

// line names a line of the log. Lines of one name are summed up.
type line struct {
	text  string
	where string // the part that it is about
}

// write writes a line; a sum has more attributes, and may be about something that is over.
type write func(over bool, more ...slog.Attr)

func newSums() *repeats.Log[line, write] {
	return repeats.New[line](sumEvery, maxSums, func(s repeats.Sum[write]) {
		s.Last(s.Over, slog.Int("times", s.Times), slog.Duration("for", s.For), slog.Bool("over", s.Over))
	})
}

// say writes a line to the log, or counts it, if it was written before and is not over yet
// (docs/operations.md#logs). Only the first line has the stack of a panic.
func (r *Runner) say(ctx context.Context, level slog.Level, l line, err error, attrs ...slog.Attr) {
	if l.where != "" {
		attrs = append(attrs, slog.String("where", l.where))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	first := r.sums.Seen(l, func(over bool, more ...slog.Attr) {
		if over {
			level = slog.LevelInfo
		}
		r.o.Logger.LogAttrs(ctx, level, l.text, append(attrs[:len(attrs):len(attrs)], more...)...)
	})
	if first {
		r.o.Logger.LogAttrs(ctx, level, l.text, append(attrs, stack(err)...)...)
	}
}
