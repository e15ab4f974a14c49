-- Code of version 1 can write no open batch any more: it names no written_by, which has
-- no default from here on, and its statements fail. What it began before is finished by
-- then, since the change of a table waits for everybody who uses it. So whoever sees this
-- version knows how each batch got its place from now on, and remembers where the open
-- work of a lane begins.

-- +goose Up
SET LOCAL lock_timeout = '1s';
ALTER TABLE {attempted_batches} ALTER COLUMN written_by DROP DEFAULT;
ALTER TABLE {waiting_batches} ALTER COLUMN written_by DROP DEFAULT;

-- +goose Down
ALTER TABLE {waiting_batches} ALTER COLUMN written_by SET DEFAULT 1;
ALTER TABLE {attempted_batches} ALTER COLUMN written_by SET DEFAULT 1;
