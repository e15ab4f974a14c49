package hints

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dltbatch/dltbatch/store"
)

// The log lines about received hints.
const (
	lineHears        = "hears hints"
	lineHearsNothing = "hears no hints: scans find what other processes do"
)

// Log logs that no hints about topics arrive, once for each reason, and that they arrive again,
// and how. It logs nothing about a store without hints, because the line about its abilities says
// so.
func Log(log *slog.Logger, t store.Topics, before, now State) {
	attrs := []slog.Attr{slog.String("about", t.String())}
	level, line := slog.LevelDebug, lineHears
	switch {
	case errors.Is(now.Err, store.ErrUnsupported):
		return
	case now.Err != nil:
		level, line = slog.LevelWarn, lineHearsNothing
		attrs = append(attrs, slog.Any("error", now.Err))
	case !now.Live:
		return // the listener ended because its context was done
	default:
		attrs = append(attrs, slog.String("way", now.Way))
		if before.Err != nil {
			level = slog.LevelInfo
		}
	}
	log.LogAttrs(context.Background(), level, line, attrs...)
}
