package sqlite

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlrow"
	"github.com/dltbatch/dltbatch/store"
)

// statements reads the constants of queries.go whose names begin with "sql".
func statements(t *testing.T) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "queries.go", nil, 0)
	require.NoError(t, err)
	exprs := map[string]ast.Expr{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			for i, name := range v.Names {
				exprs[name.Name] = v.Values[i]
			}
		}
		return true
	})
	var eval func(e ast.Expr) string
	eval = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, err := strconv.Unquote(e.Value)
			require.NoError(t, err)
			return s
		case *ast.BinaryExpr:
			return eval(e.X) + eval(e.Y)
		case *ast.Ident:
			require.Contains(t, exprs, e.Name)
			return eval(exprs[e.Name])
		}
		require.Failf(t, "expression", "%T", e)
		return ""
	}
	found := map[string]string{}
	for name, e := range exprs {
		if strings.HasPrefix(name, "sql") {
			found[name] = eval(e)
		}
	}
	require.Equal(t, sqlDue, found["sqlDue"], "the reader of queries.go")
	return found
}

// plan is what the planner says it would do, a line each.
func plan(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	if n := strings.Count(query, "?"); len(args) == 0 {
		for range n {
			args = append(args, 1)
		}
	}
	rows, err := s.db.Queryx("EXPLAIN QUERY PLAN "+query, args...)
	require.NoError(t, err, query)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		lines = append(lines, detail)
	}
	require.NoError(t, rows.Err())
	return lines
}

// scanned is what may be read from its beginning to its end, and why.
var scanned = map[string]string{
	"SCAN CONSTANT ROW":                  "one row",
	"SCAN j VIRTUAL TABLE INDEX 1:":      "the numbers of one call",
	"SCAN json_each VIRTUAL TABLE INDEX": "the numbers of one call",
	"SCAN d":                             "the rows that were selected in the line before, at most Limit",
	"SCAN lanes":                         "the lanes that were found so far, at most Limit",
	"SCAN tombstones":                    "EXISTS reads its first row only",
	"SCAN ledger":                        "at most one row",
}

func badPlan(lines []string) (bad []string) {
	for _, l := range lines {
		if !strings.HasPrefix(l, "SCAN") {
			continue
		}
		ok := false
		for prefix := range scanned {
			ok = ok || l == prefix || strings.HasPrefix(l, prefix+" ") || (strings.HasSuffix(prefix, ":") && strings.HasPrefix(l, prefix))
		}
		if !ok {
			bad = append(bad, l)
		}
	}
	return bad
}

// No statement of the engine reads through what grows with the backlog or with
// history (design section 3, promise 9).
func TestNoStatementScans(t *testing.T) {
	s, _, _ := fresh(t)
	all := statements(t)
	require.Greater(t, len(all), 30)
	for name, query := range all {
		t.Run(name, func(t *testing.T) {
			lines := plan(t, s, query)
			t.Log(strings.Join(lines, "\n"))
			assert.Empty(t, badPlan(lines), "%s\n%s", query, strings.Join(lines, "\n"))
		})
	}
}

// The planner chooses by what the tables hold, so it is asked again when they hold
// something and it knows how much (ANALYZE is the application's to run or not).
func TestNoStatementScansAfterAnalyze(t *testing.T) {
	s, _, _ := fresh(t)
	var in []batch.Batch
	for i := range 2000 {
		in = append(in, newBatch([]string{"a", "b", "c", "d"}[i%4], i))
	}
	require.NoError(t, s.Add(t.Context(), in...))
	_, err := s.Claim(t.Context(), query("a", "b"), func(l batch.Lane) []batch.Run { return []batch.Run{{0, 1}} })
	require.NoError(t, err)
	_, err = s.db.Exec("ANALYZE")
	require.NoError(t, err)
	for name, query := range statements(t) {
		t.Run(name, func(t *testing.T) {
			lines := plan(t, s, query)
			assert.Empty(t, badPlan(lines), "%s\n%s", query, strings.Join(lines, "\n"))
		})
	}
}

// A claim reads what was attempted through its own index, not past what waits, and
// the front of what waits in the order of its index.
func TestClaimPlans(t *testing.T) {
	s, _, _ := fresh(t)
	attempted, waiting := strings.Join(plan(t, s, sqlAttempted), "\n"), strings.Join(plan(t, s, sqlWaiting), "\n")
	assert.Contains(t, attempted, "USING INDEX open_batches_attempted (service_id=?)")
	assert.Contains(t, waiting, "USING INDEX open_batches_lane (service_id=?)")
	for _, p := range []string{attempted, waiting, strings.Join(plan(t, s, sqlPrunable), "\n")} {
		assert.NotContains(t, p, "TEMP B-TREE")
	}
}

// List follows an index wherever its query allows.
func TestListPlans(t *testing.T) {
	s, _, _ := fresh(t)
	service := batch.ServiceID("a")
	after := sqlrow.CursorAt(batch.Record{Key: batch.Key{ID: "a"}})
	for name, q := range map[string]store.ListQuery{
		"all":              {},
		"all, going on":    {After: after},
		"a lane":           {Service: &service},
		"a lane, going on": {Service: &service, After: after},
		"an open lane":     {Service: &service, Open: true, After: after},
	} {
		t.Run(name, func(t *testing.T) {
			query, args, err := listSQL(q)
			require.NoError(t, err)
			lines := plan(t, s, query, args...)
			for _, l := range lines {
				if strings.HasPrefix(l, "SCAN") {
					assert.Contains(t, l, "USING INDEX batches_created", "in order, up to the limit")
				}
				assert.NotEqual(t, "USE TEMP B-TREE FOR ORDER BY", l)
			}
		})
	}
}
