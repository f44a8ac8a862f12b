"""What torch.optim.AdamW makes of a tensor in five updates, with a rate that changes and a gradient that is clipped.

Writes adamw.txt beside itself: one line a list of numbers, its name first. Run with torch 2.x on a processor."""

import pathlib

import torch

STEPS = 5
RATES = [1e-3, 5e-3, 2e-3, 1e-2, 7e-4]
SCALES = [1.0, 0.5, 0.37, 1.0, 0.9]


def line(name, tensor):
    return " ".join([name, *(repr(value) for value in tensor.flatten().tolist())])


def main():
    lines = [line("rates", torch.tensor(RATES, dtype=torch.float64)), line("scales", torch.tensor(SCALES, dtype=torch.float64))]
    for name, decay, betas in [("decayed", 0.1, (0.9, 0.95)), ("plain", 0.0, (0.4, 0.999))]:
        generator = torch.Generator().manual_seed(17)
        weight = torch.nn.Parameter(torch.randn(7, 11, generator=generator))
        optimiser = torch.optim.AdamW([weight], lr=1.0, betas=betas, eps=1e-8, weight_decay=decay, foreach=False, fused=False)
        lines.append(line(f"{name}_start", weight.detach()))
        for step in range(STEPS):
            gradient = torch.randn(7, 11, generator=generator) * 10.0 ** (step - 3)
            lines.append(line(f"{name}_gradient_{step}", gradient))
            weight.grad = gradient * SCALES[step]
            optimiser.param_groups[0]["lr"] = RATES[step]
            optimiser.step()
            lines.append(line(f"{name}_value_{step}", weight.detach()))
        state = optimiser.state[weight]
        lines.append(line(f"{name}_first", state["exp_avg"]))
        lines.append(line(f"{name}_second", state["exp_avg_sq"]))
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
