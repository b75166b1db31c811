"""A function goes in, its value or its exception comes back."""

from __future__ import annotations


def test_a_script_gets_the_value_and_the_log(gateway, project, python):
    """The first thing that anybody tries."""
    project(
        script="""
        import gridweave as gw

        @gw.function(vram="8GB")
        def square(x):
            print("squaring", x)
            return x * x

        if __name__ == "__main__":
            print(square.remote(7))
        """
    )
    done = python("script.py")
    assert (0, "squaring 7\n49\n", "") == (done.returncode, done.stdout, done.stderr)
    assert "8GB" == gateway.bodies()[0]["vram"]
