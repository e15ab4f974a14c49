// Package canton submits and follows commands of a Canton participant, through its JSON Ledger
// API v2 (release lines 3.3 to 3.6).
//
// A batch is one atomic list of commands. Its id is the command id, its service the acting
// party, and its payload a JSON object with "commands" and optional fields ("readAs",
// "workflowId", "disclosedContracts", "synchronizerId", ...); the client adds the rest.
// [Client.Check] refuses bad payloads beforehand.
//
//	c, err := canton.New("http://localhost:7575", &canton.Options{UserID: "app1"})
//
// A submission is asynchronous. Its outcome is read from the participant's completions,
// matched by user, party, command id and, for rejections, by the submission id, which names
// the attempt ("<batch id>#<number>"). The client reads them from the ledger's end as it was
// before the first POST: [Client.Prepare] asks for it, and the engine stores it and passes it
// back in batch.Attempt.Prepared, so that nothing is missed after a crash. Without it the
// client looks back only a bounded way.
//
// The same command does not take effect twice within Options.DeduplicationPeriod. So a batch
// without a completion is sent again under the same command id: it runs once, or the answer is
// DUPLICATE_COMMAND, which is a success. (Commands that consume their inputs may be refused
// before deduplication; then the completion of the earlier attempt decides, and the engine
// keeps the batch in doubt until it is found.) If the batch may not be sent again, the
// completion of a later attempt proves that the earlier ones had no effect. For a plain
// command without a completion Canton gives no proof that it can no longer take effect. A user
// who knows the bounds of the synchronizers declares them with Options.DecidedWithin
// ([Client.Resolve]).
//
// Completions come over a WebSocket ([Client.Events]) and, at the least, by polling.
//
// The facts about participants behind all this are in docs/ledgers/canton.md, each with its
// source. Submissions of external parties are not supported.
package canton
