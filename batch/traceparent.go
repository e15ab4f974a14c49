package batch

// traceParentLen is the length of a traceparent, in bytes.
const traceParentLen = 55

// ValidTraceParent reports whether s is the value of a traceparent header of W3C Trace Context,
// version 00: "00-", the trace id, "-", the parent id, "-" and the flags, in lower-case
// hexadecimal digits, and neither id all zeros. A value of a later version is not valid here: its
// meaning is not known yet. ValidTraceParent allocates nothing.
func ValidTraceParent(s string) bool {
	const traceID, parentID, flags = 3, 36, 53
	if len(s) != traceParentLen || s[:traceID] != "00-" || s[parentID-1] != '-' || s[flags-1] != '-' {
		return false
	}
	return isID(s[traceID:parentID-1]) && isID(s[parentID:flags-1]) && isHex(s[flags:])
}

// isID reports whether s has only lower-case hexadecimal digits, of which at least one is not
// zero.
func isID(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return isHex(s)
		}
	}
	return false
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
