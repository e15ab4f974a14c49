package events

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/dltbatch/dltbatch/internal/loop"
)

// logHandler contains panics in the handler of Options.Logger, which is called in every part and
// by the parts of other packages. A line about such a panic would panic again, so only Health
// shows it.
type logHandler struct {
	slog.Handler
	trouble func(error)
}

func (h logHandler) contain() {
	if v := recover(); v != nil {
		h.trouble(fmt.Errorf("the handler of Options.Logger: %w", &loop.PanicError{Value: v, Stack: debug.Stack()}))
	}
}

// Enabled returns false after a panic.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	defer h.contain()
	return h.Handler.Enabled(ctx, level)
}

// Handle loses the line after a panic.
func (h logHandler) Handle(ctx context.Context, line slog.Record) error {
	defer h.contain()
	return h.Handler.Handle(ctx, line)
}

// WithAttrs returns a handler without the attributes after a panic.
func (h logHandler) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = h
	defer h.contain()
	return logHandler{h.Handler.WithAttrs(attrs), h.trouble}
}

// WithGroup returns a handler without the group after a panic.
func (h logHandler) WithGroup(name string) (with slog.Handler) {
	with = h
	defer h.contain()
	return logHandler{h.Handler.WithGroup(name), h.trouble}
}
