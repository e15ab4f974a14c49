package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// The lines about a Run in the log, in addition to those of its events.
const (
	lineStarted          = "started"
	lineStopping         = "stopping"
	lineStopped          = "stopped"
	lineMissingAbilities = "the store lacks abilities"
)

// logMissingAbilities writes down once which abilities the store lacks, since its author may have
// forgotten to name one.
func (e *Engine) logMissingAbilities(ctx context.Context) {
	var losses []slog.Attr
	for _, l := range e.store.Abilities().Losses() {
		losses = append(losses, slog.String(l.Ability.String(), l.Text))
	}
	if len(losses) > 0 {
		e.events.Logger().LogAttrs(ctx, slog.LevelWarn, lineMissingAbilities, slog.GroupAttrs("lost", losses...))
	}
}

// logStart writes down how this Run differs from others.
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

// logStopping writes down that a stop begins.
func (r *run) logStopping(ctx context.Context) {
	r.events.Logger().LogAttrs(ctx, slog.LevelInfo, lineStopping, slog.String("instance", r.o.Instance), slog.Int("under_way", r.table.Unfinished()))
}

// logStop writes down how a Run ended: how many claims were put back, and how many attempts the
// next start has to ask about.
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
