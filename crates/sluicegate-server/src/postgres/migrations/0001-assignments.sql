-- Who has which tier: one row each. Every change gives its domain a new version, and tells whoever listens.

CREATE TABLE sluicegate.domain (
    domain  text PRIMARY KEY CHECK (domain ~ '^[A-Za-z0-9_.-]{1,64}$'),
    version uuid NOT NULL DEFAULT gen_random_uuid()
);

CREATE TABLE sluicegate.assignment (
    domain    text NOT NULL CHECK (domain ~ '^[A-Za-z0-9_.-]{1,64}$'),
    attribute text NOT NULL CHECK (attribute IN ('user', 'org')),
    assignee  text NOT NULL CHECK (octet_length(assignee) <= 512),
    tier      text NOT NULL CHECK (tier ~ '^[A-Za-z0-9_.-]{1,64}$'),
    until     timestamptz CHECK (until >= '1970-01-01Z' AND until < '9999-01-01Z')
);

-- At the same time nobody has two tiers that last, or two that end.
CREATE UNIQUE INDEX assignment_lasting ON sluicegate.assignment (domain, attribute, assignee) WHERE until IS NULL;
CREATE UNIQUE INDEX assignment_ending ON sluicegate.assignment (domain, attribute, assignee) WHERE until IS NOT NULL;

-- With the rights of its owner: who may write assignments need not write versions. The row of the domain stays locked to
-- the end of the transaction, so a version stands for the same rows whoever reads it.
CREATE FUNCTION sluicegate.tell() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    told text;
BEGIN
    FOR told IN
        INSERT INTO sluicegate.domain AS known (domain)
        SELECT DISTINCT changed.domain FROM changed ORDER BY 1
        ON CONFLICT (domain) DO UPDATE SET version = gen_random_uuid()
        RETURNING known.domain
    LOOP
        PERFORM pg_notify('sluicegate', told);
    END LOOP;
    RETURN NULL;
END
$$;

CREATE FUNCTION sluicegate.tell_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    told text;
BEGIN
    FOR told IN UPDATE sluicegate.domain SET version = gen_random_uuid() RETURNING domain.domain LOOP
        PERFORM pg_notify('sluicegate', told);
    END LOOP;
    RETURN NULL;
END
$$;

CREATE TRIGGER inserted AFTER INSERT ON sluicegate.assignment
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sluicegate.tell();
CREATE TRIGGER deleted AFTER DELETE ON sluicegate.assignment
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sluicegate.tell();
-- An update can move a row from one domain to another.
CREATE TRIGGER updated_from AFTER UPDATE ON sluicegate.assignment
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sluicegate.tell();
CREATE TRIGGER updated_to AFTER UPDATE ON sluicegate.assignment
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION sluicegate.tell();
CREATE TRIGGER truncated AFTER TRUNCATE ON sluicegate.assignment
    FOR EACH STATEMENT EXECUTE FUNCTION sluicegate.tell_all();
