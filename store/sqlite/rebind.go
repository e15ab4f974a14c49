package sqlite

import (
	"regexp"
	"strings"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// postgresForms convert a shared statement into SQLite's form, one after the other. json_each
// returns the values of a list, and CROSS JOIN keeps SQLite from reversing a join. The prefix
// separates the tables from the application's tables in the same file.
var postgresForms = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(CROSS|LEFT) JOIN LATERAL \(SELECT \* FROM \{(\w+)\} (\w+) WHERE ([^()]*) OFFSET 0\) \w+( ON true)?`), `$1 JOIN {$2} $3 ON $4`},
	{regexp.MustCompile(`\n\s*JOIN \{`), ` CROSS JOIN {`},
	{regexp.MustCompile(`unnest\(\$(\d+)::uuid\[\]\) AS u \((\w+)\)`), `(SELECT unhex(value) AS $2 FROM json_each(?$1)) u`},
	{regexp.MustCompile(`unnest\(\$(\d+)::\w+\[\]\) AS u \((\w+)\)`), `(SELECT value AS $2 FROM json_each(?$1)) u`},
	{regexp.MustCompile(`unnest\(\$(\d+)::\w+\[\], \$(\d+)::\w+\[\]\) AS u \((\w+), (\w+)\)`), `(SELECT value AS $3, ?$2 ->> key AS $4 FROM json_each(?$1)) u`},
	{regexp.MustCompile(`FROM \{(\w+)\} (\w+) WHERE (\S+) = ANY \(\$(\d+)::uuid\[\]\)`), `FROM json_each(?$4) j CROSS JOIN {$1} $2 ON $3 = unhex(j.value)`},
	{regexp.MustCompile(`FROM \{(\w+)\} (\w+) WHERE (\S+) = ANY \(\$(\d+)::\w+\[\]\)`), `FROM json_each(?$4) j CROSS JOIN {$1} $2 ON $3 = j.value`},
	{regexp.MustCompile(`= ANY \(\$(\d+)::uuid\[\]\)`), `IN (SELECT unhex(value) FROM json_each(?$1))`},
	{regexp.MustCompile(`= ANY \(\$(\d+)::\w+\[\]\)`), `IN (SELECT value FROM json_each(?$1))`},
	{regexp.MustCompile(`\$(\d+)::uuid`), `unhex(?$1)`},
	{regexp.MustCompile(`\$(\d+)(::\w+)?`), `?$1`},
	{regexp.MustCompile(`\s+FOR (UPDATE|KEY SHARE)\b.*$`), ``},     // no row locks, since a transaction that writes locks the whole database
	{regexp.MustCompile(`\{(?:dltbatch_)?(\w+)\}`), `dltbatch_$1`}, // the tables of migrations have the prefix already
}

// rebind returns a shared statement in SQLite's form.
func rebind(statement string) string {
	text := strings.ReplaceAll(statement, sqlstore.Clock, ownClock)
	for _, f := range postgresForms {
		text = f.from.ReplaceAllString(text, f.to)
	}
	return text
}
