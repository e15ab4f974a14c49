package tier

import (
	"slices"
	"strings"
	"testing"
)

// MarkSuite says how often a test of store/storetest runs, whose suite runs in the test of that
// name. It is [Plain], unless goroutines meet in its group of tests: the others call one method
// after another.
func MarkSuite(t testing.TB, name string) {
	t.Helper()
	test, inside := strings.CutPrefix(t.Name(), name+"/")
	if group, _, _ := strings.Cut(test, "/"); inside && !Meets(group) {
		Plain(t)
	}
}

// Meets reports whether goroutines meet in that group of store/storetest.
func Meets(group string) bool {
	return slices.Contains([]string{
		"harness", "add", "bulk", "claim", "idempotency", "journal", "ledger", "pending", "race", "stats", "summary",
	}, group)
}
