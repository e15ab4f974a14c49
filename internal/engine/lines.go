package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// The log lines about a Run, in addition to the lines of its events.
const (
	lineStarted          = "started"
	lineStopping         = "stopping"
	lineStopped          = "stopped"
	lineMissingAbilities = "the store lacks abilities"
)

// logMissingAbilities logs once which abilities the store lacks, since its author may have
// forgotten to declare one.
func (e *Engine) logMissingAbilities(ctx context.Context) {
	var losses []slog.Attr
	for _, l := range e.store.Abilities().Losses() {
		losses = append(losses, slog.String(l.Ability.String(), l.Text))
	}
	if len(losses) > 0 {
		e.events.Logger().LogAttrs(ctx, slog.LevelWarn, lineMissingAbilities, slog.GroupAttrs("lost", losses...))
	}
}

// logStart logs the start of a Run, and the options that differ from their defaults.
func (e *Engine) logStart(ctx context.Context) {
	if !e.events.Logger().Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := []slog.Attr{
		slog.String("instance", e.o.Instance), slog.String("version", e.o.Version),
		slog.String("store", fmt.Sprintf("%T", e.store.givenStore())), slog.String("ledger", e.ledger.shownName()),
		slog.String("strategy", e.o.Strategy.Name), slog.Int("window", e.o.Strategy.Window),
	}
	if len(e.o.NonDefaults) > 0 {
		attrs = append(attrs, slog.GroupAttrs("options", e.o.NonDefaults...))
	}
	e.events.Logger().LogAttrs(ctx, slog.LevelInfo, lineStarted, attrs...)
}

// logStopping logs the beginning of a stop.
func (r *run) logStopping(ctx context.Context) {
	r.events.Logger().LogAttrs(ctx, slog.LevelInfo, lineStopping, slog.String("instance", r.o.Instance), slog.Int("under_way", r.table.Unfinished()))
}

// logStop logs the end of a Run: how many claims were put back, and about how many attempts the
// next start has to ask.
func (r *run) logStop(ctx context.Context, err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("instance", r.o.Instance), slog.Duration("took", time.Since(r.stopCounts.since)),
		slog.Int64("put_back", r.stopCounts.putBack.Load()), slog.Int64("unfinished", r.stopCounts.lost.Load()+int64(r.table.Unfinished())),
	}
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", err))
	}
	r.events.Logger().LogAttrs(ctx, level, lineStopped, attrs...)
}
