package legible

import (
	"context"
	"log/slog"
)

// Handler returns a log handler that passes everything on to h, with texts as [Text] and [Error]
// return them, and with durations as text with their unit, because a number without a unit means
// nothing to a reader.
func Handler(h slog.Handler) slog.Handler { return handler{h} }

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, line slog.Record) error {
	clean := slog.NewRecord(line.Time, line.Level, line.Message, line.PC)
	line.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(legibleAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(legibleAttrs(attrs))}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

func legibleAttrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = legibleAttr(a)
	}
	return clean
}

func legibleAttr(a slog.Attr) slog.Attr {
	switch v := a.Value.Resolve(); v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Text(v.String()))
	case slog.KindDuration:
		a.Value = slog.StringValue(v.Duration().String())
	case slog.KindGroup:
		a.Value = slog.GroupValue(legibleAttrs(v.Group())...)
	case slog.KindAny:
		if err, is := v.Any().(error); is {
			a.Value = slog.AnyValue(legibleError{err})
		}
	}
	return a
}

// legibleError is an error as the log shows it. A handler of the application can still find its
// kind.
type legibleError struct{ error }

func (e legibleError) Error() string { return Error(e.error) }
func (e legibleError) Unwrap() error { return e.error }
