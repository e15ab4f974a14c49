package store_test

import (
	"hash/fnv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

func TestHintText(t *testing.T) {
	whole := store.Hint{
		From: "me", Hears: store.TopicFinals, WholeTopics: store.TopicOrders, Lanes: []batch.ServiceID{"a", "Größe 🚢", `"<&>`},
		Finals: []uint64{store.KeyHash("s", "a"), 0, 1<<64 - 1}, OrderFinals: []uint64{7},
	}
	text := whole.Text(store.MaxHint)
	assert.NotContains(t, text, "ö")
	got, ok := store.ParseHint(text)
	assert.True(t, ok)
	assert.Equal(t, whole, got)
	assert.Equal(t, store.AllTopics, got.Topics())

	short, ok := store.ParseHint(whole.Text(120))
	assert.True(t, ok)
	assert.LessOrEqual(t, len(whole.Text(120)), 120)
	assert.Equal(t, whole.Topics(), short.Topics(), "what does not fit is many")
	assert.Empty(t, whole.Text(10))

	long := store.Hint{Lanes: []batch.ServiceID{batch.ServiceID(strings.Repeat("🚢", batch.MaxIDLen/4))}, Finals: make([]uint64, 2000)}
	got, ok = store.ParseHint(long.Text(7999))
	assert.True(t, ok)
	assert.Equal(t, store.Hint{Lanes: long.Lanes, WholeTopics: store.TopicFinals}, got)
}

// KeyHash gives the same numbers as FNV-1a, since processes of different versions compare them.
func TestKeyHash(t *testing.T) {
	for _, parts := range [][]string{{}, {""}, {"s", "a"}, {"sa", ""}, {"Größe 🚢", "x"}} {
		sum := fnv.New64a()
		for _, part := range parts {
			sum.Write(append([]byte(part), 0))
		}
		assert.Equal(t, sum.Sum64(), store.KeyHash(parts...), "%q", parts)
	}
}

// ParseHint refuses a text that no Hint wrote. Of a forged hint it keeps only the parts that can
// be true.
func TestHintsOfOthers(t *testing.T) {
	for _, text := range []string{
		"", "hello", "dltbatch", "dltbatch1", "dltbatch1{}", `dltbatch1{"from":"me"}`, `dltbatch2{"whole":1}`, `dltbatch1{"whole":"x"}`,
		`dltbatch1{"whole":240}`, `dltbatch1{"lanes":["a\u0000"]}`, `dltbatch1{"finals":"AAAA"}`, "dltbatch1" + strings.Repeat("[", 4000),
		`dltbatch1{"whole":1,"from":"` + strings.Repeat("x", 8000) + `"}`,
	} {
		_, ok := store.ParseHint(text)
		assert.False(t, ok, text)
	}
	h, ok := store.ParseHint(`dltbatch1{"lanes":["\u0001","a"],"whole":255,"new":true}`)
	assert.True(t, ok)
	assert.Equal(t, store.Hint{Lanes: []batch.ServiceID{"a"}, WholeTopics: store.AllTopics}, h)
}

func TestHintFor(t *testing.T) {
	l := store.Listener{ID: "me", Wants: store.TopicLanes}
	assert.True(t, store.Hint{WholeTopics: store.TopicLanes}.For(l))
	assert.True(t, store.Hint{From: "you", Lanes: []batch.ServiceID{"a"}}.For(l))
	assert.True(t, store.Hint{From: "you", Hears: store.TopicFinals}.For(l))
	assert.False(t, store.Hint{From: "me", WholeTopics: store.TopicLanes}.For(l))
	assert.False(t, store.Hint{From: "you", Finals: []uint64{1}}.For(l))
	assert.Equal(t, "lanes, order finals", (store.TopicLanes | store.TopicOrderFinals).String())
	assert.Equal(t, "none", store.Topics(0).String())
}

func FuzzParseHint(f *testing.F) {
	f.Add("dltbatch1" + `{"from":"me","hears":3,"whole":1,"lanes":["a"],"finals":"AAAAAAAAAAA="}`)
	f.Add(`dltbatch1{"lanes":["\ud83d"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		h, ok := store.ParseHint(text)
		if !ok {
			return
		}
		again, ok := store.ParseHint(h.Text(4 * store.MaxHint))
		if len(h.Text(4*store.MaxHint)) <= store.MaxHint {
			assert.True(t, ok)
			assert.Equal(t, h, again)
		}
	})
}
