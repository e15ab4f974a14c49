package integration

import (
	"database/sql"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statements reads the constants of the store's queries.go whose names begin with "sql".
func statements(t *testing.T) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "../../store/postgres/queries.go", nil, 0)
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
	require.Greater(t, len(found), 30)
	return found
}

var (
	tableToken = regexp.MustCompile(`\{([a-z_]+)\}`)
	paramToken = regexp.MustCompile(`\$\d+::(\w+)(\[\])?`)
)

// samples are values as calls of 100 have them.
func samples(n int) map[string]string {
	var numbers, lanes []string
	for i := range n {
		numbers = append(numbers, strconv.Itoa(i*31+1))
		lanes = append(lanes, fmt.Sprintf("lane%04d", i*7))
	}
	return map[string]string{
		"bigint[]": "{" + strings.Join(numbers, ",") + "}", "integer[]": "{" + strings.Join(numbers, ",") + "}",
		"smallint[]": "{1,2}", "boolean[]": "{t}", "text[]": "{" + strings.Join(lanes, ",") + "}",
		"text": "lane0100", "bigint": "20", "bytea": "",
	}
}

// filled is a space with rows in all tables, as if added, attempted or finished long ago.
func filled(t testing.TB, waiting, attempted, final int) *space {
	s := newSpace(t, pgx)
	s.store()
	s.fill(waiting, attempted, final)
	return s
}

func (s *space) fill(waiting, attempted, final int) {
	table := func(name string) string { return s.schema + "." + name }
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT i, md5(i::text) || md5('x' || i), 'lane' || lpad((i %% 1000)::text, 4, '0'), 1000000 + i, '', '',
		false, '\x00', 0, false, NULL, decode(repeat('00', 100), 'hex') FROM generate_series(1, %d) i`, table("batches"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT service_id, created_at, seq, 1, false FROM %s WHERE seq <= %d`, table("waiting_batches"), table("batches"), waiting))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, service_id, created_at, 3, 3, 1, 0, 0, 0, 0, 0, 9000000000000000000, 0, 0, 0, 0, 0, 0, 0, false, false, NULL, '', '', 0
		FROM %s WHERE seq > %d AND seq <= %d`, table("attempted_batches"), table("batches"), waiting, waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 7, 4, 1, 0, 0, 0, 0, 0, created_at, false, NULL, '', 0 FROM %s WHERE seq > %d`,
		table("outcomes"), table("batches"), waiting+attempted))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 0, header_signature, '', '', '' FROM %s`, table("transactions"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT seq, 0, '', true, '', '' FROM %s`, table("transaction_receipts"), table("batches")))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT md5('gone' || i), '', '', 0 FROM generate_series(1, %d) i`, table("tombstones"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`INSERT INTO %s SELECT DISTINCT service_id FROM %s UNION SELECT md5(i::text) FROM generate_series(1, %d) i`, table("services"), table("batches"), waiting+attempted+final))
	s.exec(fmt.Sprintf(`SELECT setval('%s', %d)`, table("batch_seq"), waiting+attempted+final))
}

func plan(t *testing.T, db *sql.DB, statement string) string {
	rows, err := db.QueryContext(t.Context(), "EXPLAIN "+statement)
	require.NoError(t, err, statement)
	defer func() { require.NoError(t, rows.Close()) }()
	var lines []string
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	return strings.Join(lines, "\n")
}

// mayRead is what reads a table from its beginning to its end on purpose.
var mayRead = map[string]string{
	"sqlDue":       "attempted_batches", // what is under way; queries.go says why
	"sqlAnyBuried": "tombstones",        // EXISTS reads the first row
	"sqlLedger":    "ledger",
}

// No statement of the store reads through what grows with the backlog or with
// history (design section 3, promise 9), whether or not the planner's statistics are
// up to date.
func TestNoStatementScans(t *testing.T) {
	s := filled(t, 100_000, 20_000, 100_000)
	for _, statistics := range []string{"none", "fresh"} {
		if statistics == "fresh" {
			s.exec(`ANALYZE`)
		}
		for name, statement := range statements(t) {
			if strings.HasPrefix(statement, "SET ") {
				continue
			}
			for _, calls := range []int{1, 100} {
				t.Run(fmt.Sprintf("%s/%s/%d", statistics, name, calls), func(t *testing.T) {
					values := samples(calls)
					text := tableToken.ReplaceAllString(statement, s.schema+".$1")
					text = paramToken.ReplaceAllStringFunc(text, func(p string) string {
						_, kind, _ := strings.Cut(p, "::")
						require.Contains(t, values, kind)
						return "'" + values[kind] + "'::" + kind
					})
					got := plan(t, s.admin, text)
					for line := range strings.SplitSeq(got, "\n") {
						_, of, is := strings.Cut(line, "Seq Scan on ")
						if !is {
							continue
						}
						of, _, _ = strings.Cut(of, " ")
						assert.Equal(t, mayRead[name], of, got)
					}
				})
			}
		}
	}
}
