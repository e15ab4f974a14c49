package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestArrays(t *testing.T) {
	assert.Equal(t, "{}", ints(nil))
	assert.Equal(t, "{-1,0,9223372036854775807}", ints([]int64{-1, 0, 1<<63 - 1}))
	assert.Equal(t, "{t,f}", boolArray(2, func(i int) bool { return i == 0 }))
	assert.Equal(t, `{"","NULL","a\"b\\c","{,}"," ä"}`, texts([]string{"", "NULL", `a"b\c`, "{,}", " ä"}))
	mixed := []any{nil, "x", "NULL", `"`, int64(-1), true, false}
	assert.Equal(t, `{NULL,"x","NULL","\"",-1,true,false}`, (&session{}).Array(len(mixed), func(i int) any { return mixed[i] }))
}

func TestNames(t *testing.T) {
	n, err := newNames(Options{Schema: "user", Prefix: "p_"})
	assert.NoError(t, err)
	assert.Equal(t, `CREATE INDEX "p_a_lane" ON "user"."p_a" (x)`, n.fill(`CREATE INDEX {.a_lane} ON {a} (x)`))
	n, err = newNames(Options{})
	assert.NoError(t, err)
	assert.Equal(t, `"dltbatch"."batches"`, n.table("batches"))
}
