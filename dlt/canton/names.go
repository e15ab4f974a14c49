package canton

import (
	"strconv"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
)

const (
	maxLedgerString = 255 // command and submission ids, parties
	maxUserID       = 128
	// maxID leaves room in a submission id for '#' and the number of the attempt.
	maxID = maxLedgerString - 20
)

func isLetterOrDigit(r rune) bool {
	return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
}

func consistsOf(s, others string, limit int) bool {
	return s != "" && len(s) <= limit && !strings.ContainsFunc(s, func(r rune) bool {
		return !isLetterOrDigit(r) && !strings.ContainsRune(others, r)
	})
}

// isCommandID reports whether s is a LedgerString with room for the number of an attempt
// (docs/ledgers/canton.md#submissions).
func isCommandID(s string) bool { return consistsOf(s, "_:-#/ .", maxID) }

func isParty(s string) bool { return consistsOf(s, ":-_ ", maxLedgerString) }

func isUserID(s string) bool { return consistsOf(s, "@^$.!`-#+'~_|:()", maxUserID) }

// submissionIDOf returns the submission id of an attempt.
func submissionIDOf(id batch.ID, number int) string {
	return string(id) + "#" + strconv.Itoa(number)
}

// attemptOf returns the number of the attempt in a submission id of the command. It returns 0 for
// a submission that is not this client's.
func attemptOf(commandID, submission string) int {
	digits, ok := strings.CutPrefix(submission, commandID+"#")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || strconv.Itoa(n) != digits {
		return 0
	}
	return n
}
