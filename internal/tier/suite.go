package tier

import (
	"slices"
	"strings"
	"testing"
)

// MarkSuite declares how often a test of store/storetest runs in the test name. It calls [Plain],
// unless goroutines meet in the test's group: the other groups call one method after another.
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
