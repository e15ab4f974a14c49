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
		slog.String("instance", e.options.Instance), slog.String("version", e.options.Version),
		slog.String("store", fmt.Sprintf("%T", e.store.givenStore())), slog.String("ledger", e.ledger.shownName()),
		slog.String("strategy", e.options.Strategy.Name), slog.Int("window", e.options.Strategy.Window),
	}
	if len(e.options.NonDefaults) > 0 {
		attrs = append(attrs, slog.GroupAttrs("options", e.options.NonDefaults...))
	}
	e.events.Logger().LogAttrs(ctx, slog.LevelInfo, lineStarted, attrs...)
}

// logStopping logs the beginning of a stop.
func (r *run) logStopping(ctx context.Context) {
	r.events.Logger().LogAttrs(ctx, slog.LevelInfo, lineStopping, slog.String("instance", r.options.Instance), slog.Int("under_way", r.table.Unfinished()))
}

// logStop logs the end of a Run: how many claims were put back, and about how many attempts the
// next start has to ask.
func (r *run) logStop(ctx context.Context, err error) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("instance", r.options.Instance), slog.Duration("took", time.Since(r.stopCounts.startedAt)),
		slog.Int64("put_back", r.stopCounts.claimsPutBack.Load()), slog.Int64("unfinished", r.stopCounts.lostWrites.Load()+int64(r.table.Unfinished())),
	}
	if err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", err))
	}
	r.events.Logger().LogAttrs(ctx, level, lineStopped, attrs...)
}
