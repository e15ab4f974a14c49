package integration

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store/postgres"
)

// keptOnly watches connections: in a transaction whose plans the server keeps, it allows only
// statements that TestKeptPlans looks at, and statements that name no table.
type keptOnly struct {
	t     testing.TB
	kept  map[string]bool // by text, with {name} for a table
	names *regexp.Regexp
	begin string

	mu   sync.Mutex
	open map[*driverpgx.Conn]bool // in such a transaction
}

func newKeptOnly(t testing.TB) *keptOnly {
	all := constants(t)
	k := &keptOnly{
		t: t, kept: map[string]bool{}, begin: all["beginKept"], open: map[*driverpgx.Conn]bool{},
		names: regexp.MustCompile(`"[a-z0-9_]+"\."([a-z_]+)"`),
	}
	for _, name := range keptStatements {
		k.kept[all[name]] = true
	}
	return k
}

// TraceQueryStart is called before a statement is sent.
func (k *keptOnly) TraceQueryStart(ctx context.Context, c *driverpgx.Conn, q driverpgx.TraceQueryStartData) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case q.SQL == k.begin:
		k.open[c] = true
		return ctx
	case q.SQL == "COMMIT" || q.SQL == "ROLLBACK" || strings.HasPrefix(q.SQL, "SET LOCAL plan_cache_mode"):
		delete(k.open, c)
	}
	if !k.open[c] {
		return ctx
	}
	text := k.names.ReplaceAllString(q.SQL, "{$1}")
	tables := slices.DeleteFunc(tableToken.FindAllString(text, -1), func(name string) bool { return name == "{"+postgres.MigrationsTable+"}" })
	assert.True(k.t, len(tables) == 0 || k.kept[text], "sent with a plan that is kept: %s", text)
	return ctx
}

// TraceQueryEnd does nothing.
func (*keptOnly) TraceQueryEnd(context.Context, *driverpgx.Conn, driverpgx.TraceQueryEndData) {}

// openWatched opens a pool of connections of pgx that keptOnly watches.
func openWatched(t testing.TB, dsn string) *sql.DB {
	config, err := driverpgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.Tracer = newKeptOnly(t)
	return stdlib.OpenDB(*config)
}
