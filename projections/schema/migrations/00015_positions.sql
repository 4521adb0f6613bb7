-- A memory may supersede more others than a smallint counts.

-- +goose Up
ALTER TABLE corrections ALTER COLUMN position TYPE integer;
