package sqlite

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// rebind converts each form that shared statements use.
func TestRebind(t *testing.T) {
	for shared, want := range map[string]string{
		`SELECT a FROM {t} WHERE b = $1::text AND c > $2::bigint FOR UPDATE`:                            `SELECT a FROM dltbatch_t WHERE b = ?1 AND c > ?2`,
		`SELECT a FROM {t} x WHERE x.b = ANY ($1::text[]) ORDER BY x.b FOR UPDATE OF x`:                 `SELECT a FROM json_each(?1) j CROSS JOIN dltbatch_t x ON x.b = j.value ORDER BY x.b`,
		`SELECT a FROM {t} x WHERE x.h = ANY ($1::uuid[])`:                                              `SELECT a FROM json_each(?1) j CROSS JOIN dltbatch_t x ON x.h = unhex(j.value)`,
		`UPDATE {t} SET a = $2::bigint WHERE b = ANY ($1::text[])`:                                      `UPDATE dltbatch_t SET a = ?2 WHERE b IN (SELECT value FROM json_each(?1))`,
		`SELECT a FROM {t} WHERE h = $1::uuid AND at < ` + sqlstore.Clock:                               `SELECT a FROM dltbatch_t WHERE h = unhex(?1) AND at < ` + ownClock,
		`FROM unnest($1::bigint[]) AS u (n)`:                                                            `FROM (SELECT value AS n FROM json_each(?1)) u`,
		`FROM unnest($1::text[], $2::text[]) AS u (a, b)`:                                               `FROM (SELECT value AS a, ?2 ->> key AS b FROM json_each(?1)) u`,
		`FROM unnest($1::uuid[]) AS u (h)`:                                                              `FROM (SELECT unhex(value) AS h FROM json_each(?1)) u`,
		"FROM u\n\tJOIN {t} x ON x.n = u.n LEFT JOIN {s} y ON y.n = x.n":                                `FROM u CROSS JOIN dltbatch_t x ON x.n = u.n LEFT JOIN dltbatch_s y ON y.n = x.n`,
		`FROM u CROSS JOIN LATERAL (SELECT * FROM {t} x WHERE x.n = u.n OFFSET 0) x`:                    `FROM u CROSS JOIN dltbatch_t x ON x.n = u.n`,
		`FROM u CROSS JOIN LATERAL (SELECT * FROM {t} x WHERE x.n = u.n OFFSET 0) x FOR KEY SHARE OF x`: `FROM u CROSS JOIN dltbatch_t x ON x.n = u.n`,
		`FROM u LEFT JOIN LATERAL (SELECT * FROM {t} x WHERE x.n = u.n OFFSET 0) x ON true`:             `FROM u LEFT JOIN dltbatch_t x ON x.n = u.n`,
		`SELECT v FROM {dltbatch_schema}`:                                                               `SELECT v FROM dltbatch_schema`,
		`DELETE FROM t WHERE n = ? AND value ->> 0 = 1`:                                                 `DELETE FROM t WHERE n = ? AND value ->> 0 = 1`,
	} {
		assert.Equal(t, want, rebind(shared))
	}
}
