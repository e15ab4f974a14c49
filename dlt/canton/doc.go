// Package canton submits and follows commands of a Canton participant, through its
// JSON Ledger API v2 (release lines 3.3 to 3.6).
//
// A batch is one atomic list of commands. Its id is the command id, its service the
// party that acts, and its payload a JSON object with "commands" and what may go
// with them ("readAs", "workflowId", "disclosedContracts", "synchronizerId", ...);
// the client adds the rest. [Client.Check] says what it would refuse.
//
//	c, err := canton.New("http://localhost:7575", &canton.Options{UserID: "app1"})
//
// A submission is asynchronous. What became of it is read from the participant's
// completions, matched by user, party, command id and, for rejections, by the
// submission id, which names the attempt ("<batch id>#<number>"). They are read from
// the ledger's end as it was before the first POST: [Client.Prepare] asks for it, the
// engine stores it and hands it back in batch.Attempt.Prepared, so that nothing is
// missed after a crash. Without it the client looks back a bounded way only.
//
// The same command does not take effect twice within Options.DeduplicationPeriod, so
// that a batch without a completion is sent again under the same command id: it runs
// once, or is answered DUPLICATE_COMMAND, which is a success. (Commands that consume
// their inputs may be refused before that is looked at; then the completion of the
// earlier attempt tells, and until it is found the engine keeps the batch in doubt.)
// Where it may not be sent again, the completion of a later attempt proves that those
// before it came to nothing. Of a plain command that has no completion Canton gives no
// proof that it can no longer take effect; whoever knows the bounds of the
// synchronizers declares them with Options.DecidedWithin ([Client.Resolve]).
//
// Completions come over a WebSocket ([Client.Events]) and, as the floor, by polling.
//
// The facts about participants that all of this rests on are in docs/ledgers/canton.md, each
// with how it is known. Submissions of external parties are not supported.
package canton
