package main

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

const plainTable = `
CREATE TABLE plain (
    id         uuid PRIMARY KEY,
    owner      text NOT NULL,
    content    text NOT NULL,
    metadata   jsonb NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX ON plain (owner)`

// servePlain is the service that a user would write instead: one INSERT with
// synchronous_commit=on, no encryption, no log, no proofs.
func servePlain(addr, database string) error {
	ctx := context.Background()
	cfg, err := pgxpool.ParseConfig(database)
	if err != nil {
		return err
	}
	cfg.MaxConns = 16
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/memories", func(c *fiber.Ctx) error {
		var body struct {
			Content  string         `json:"content"`
			Metadata map[string]any `json:"metadata"`
		}
		if err := c.BodyParser(&body); err != nil {
			return err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, `INSERT INTO plain VALUES ($1, $2, $3, $4, $5)`,
			id, c.Get("X-Owner"), body.Content, body.Metadata, time.Now()); err != nil {
			return err
		}
		return c.Status(fiber.StatusCreated).JSON(fiber.Map{"id": id})
	})
	app.Get("/memories/:id", func(c *fiber.Ctx) error {
		var id, content string
		var metadata map[string]any
		var created time.Time
		err := pool.QueryRow(ctx, `SELECT id::text, content, metadata, created_at FROM plain WHERE id = $1 AND owner = $2`,
			c.Params("id"), c.Get("X-Owner")).Scan(&id, &content, &metadata, &created)
		if err != nil {
			return fiber.ErrNotFound
		}
		return c.JSON(fiber.Map{"id": id, "content": content, "metadata": metadata, "createdAt": created})
	})
	app.Get("/readyz", func(c *fiber.Ctx) error { return c.SendStatus(fiber.StatusOK) })
	return app.Listen(addr)
}
