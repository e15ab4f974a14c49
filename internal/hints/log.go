package hints

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dltbatch/dltbatch/store"
)

// The lines of a log about what is heard.
const (
	lineHears        = "hears hints"
	lineHearsNothing = "hears no hints: scans find what other processes do"
)

// Log writes down that no hints about topics arrive, once for each reason, and that they arrive,
// and how. For a store that never gives hints it writes nothing: its abilities say so.
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
		return // it has ended as it should
	default:
		attrs = append(attrs, slog.String("way", now.Way))
		if before.Err != nil {
			level = slog.LevelInfo
		}
	}
	log.LogAttrs(context.Background(), level, line, attrs...)
}
